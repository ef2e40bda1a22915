"""Public duels for the first place of a ranking."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board
from kernelcup.app.results.queries import facts as stored
from kernelcup.app.results.queries.facts import DuelRow
from kernelcup.app.results.standings import board_device
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import OPERATOR, Actor, DuelOutcome, Leaderboard
from kernelcup.engine import Database, Session
from kernelcup.engine.rows import made_of
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import BinaryUse, DuelResult

MOST = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownDuel:
    """A duel of a new best result against the previous leader."""

    run_id: int
    submission_id: int
    user: str
    rival_id: int | None
    rival: str
    """Empty once the rival's submission was deleted."""
    outcome: DuelOutcome
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class DuelReport:
    """One duel with its measurement."""

    shown: ShownDuel
    result: DuelResult | None
    """Without the times of single cases, which may be hidden, and without the output of the rival's code."""
    binaries: list[BinaryUse]
    """Of which run's binary each side was; empty where code was judged."""


def list_duels(db: Database, board: str, device: str, *, viewer: Actor = OPERATOR) -> list[ShownDuel]:
    """Return the newest duels of a ranking, except those after a freeze.

    Raises:
        NotFound, UnknownDevice: As for the standings.
    """
    with db.read() as session:
        found = find_board(session, board, viewer)
        return _shown(session, found, board_device(found, device), viewer)


def show_duel(db: Database, board: str, device: str, run_id: int, *, viewer: Actor = OPERATOR) -> DuelReport:
    """Return one duel of a ranking. Raise ``NotFound`` if :func:`list_duels` has none with that number."""
    with db.read() as session:
        found = find_board(session, board, viewer)
        duels = _shown(session, found, board_device(found, device), viewer)
        shown = next((each for each in duels if each.run_id == run_id), None)
        if shown is None:
            raise NotFound(f"Leaderboard {found.name!r} has no duel {run_id}.")
        _, report = stored.reports(session, [run_id])[run_id]
    duel = report.duel
    return DuelReport(
        shown=shown,
        result=None if duel is None else dataclasses.replace(duel, cases=[], rival_message=""),
        binaries=[each for each in report.binaries if not each.why],
    )


def _shown(session: Session, board: Leaderboard, device: str, viewer: Actor) -> list[ShownDuel]:
    rows = stored.duels(
        session,
        board_id=board.id,
        device=device,
        until=visibility.hidden_since(board, viewer),
        limit=MOST,
    )
    rivals = {
        each.rival_id: submissions.find(session, each.rival_id) for each in rows if each.rival_id is not None
    }
    people = {each.user_id for each in (*rows, *rivals.values()) if each is not None}
    shown = visibility.shown_names(session, board, stored.user_names(session, people), viewer)
    rival_names = {key: shown[each.user_id].shown for key, each in rivals.items() if each is not None}
    names = {user_id: name.shown for user_id, name in shown.items()}
    return [_duel(each, names, rival_names) for each in rows]


def _duel(row: DuelRow, names: Mapping[int, str], rivals: Mapping[int, str]) -> ShownDuel:
    is_there = row.rival_id is not None and row.rival_id in rivals
    return made_of(
        row,
        ShownDuel,
        user=names[row.user_id],
        rival_id=row.rival_id if is_there else None,
        rival=rivals[row.rival_id] if is_there and row.rival_id is not None else "",
    )
