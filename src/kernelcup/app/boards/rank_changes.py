"""Whose rank another rule or task changes, before that is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from kernelcup import scoring
from kernelcup.app.boards import boards as board_rules
from kernelcup.app.boards.changes import RANKS_BY, apply_plan, plan_changes
from kernelcup.app.boards.queries import boards
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.people.queries import users
from kernelcup.app.results.queries import standings
from kernelcup.domain import Actor, Device, Leaderboard, Task
from kernelcup.engine import Database, Session

_ranks_by = attrgetter(*RANKS_BY)

_Key = tuple[int, str]
"""A user's id, and a class of machines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A user whose rank changes on one device."""

    user: str
    old_rank: int | None
    """None for a user who comes into the ranking."""
    new_rank: int | None
    """None for a user who leaves it."""
    submission_id: int
    """The submission that stands for the user afterwards; of a user who leaves the one that stood before."""
    score_s: float
    """Its time in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankChanges:
    """What an update does to the ranking of one device."""

    device: str
    entries: int
    """Users with a rank before the update."""
    leaving: int
    """Users without a rank after it."""
    changing: int
    """Users whose rank changes, those who leave or come in among them."""
    moves: tuple[Move, ...]
    """The first of them, by old rank; users who come in follow."""


@dataclass(frozen=True, slots=True)
class _Place:
    rank: int
    submission_id: int
    score_s: float


def rank_changes(
    db: Database,
    actor: Actor,
    name: str,
    *,
    now: datetime,
    task: Task | None = None,
    changes: BoardChanges | None = None,
    known_devices: Sequence[Device] | None = None,
    most: int = 50,
) -> list[RankChanges]:
    """Return whose rank an update would change, by device; devices where none changes are left out.

    Where the update decides about ranks it is made and taken back in one transaction, so the answer is what
    the update itself does. It raises what :func:`kernelcup.app.boards.changes.preview_update` raises.

    Args:
        most: At most that many moves for each device.
    """
    asked = changes or BoardChanges()
    with db.read() as session:
        board = board_rules.find_managed(session, name, actor)
        plan = plan_changes(session, board, task, asked, known_devices, now)
        if _decides(board) == _decides(plan.board):
            return []
    with db.write() as session:
        boards.lock_with_jobs(session, name)
        board = board_rules.find_managed(session, name, actor)
        plan = plan_changes(session, board, task, asked, known_devices, now)
        devices = list(dict.fromkeys([*board.devices, *plan.board.devices]))
        before = {device: _places(session, board, device) for device in devices}
        apply_plan(session, actor, board, plan, now)
        after = {device: _places(session, plan.board, device) for device in devices}
        found = [_compared(session, each, before[each], after[each], most) for each in devices]
        session.rollback()
    return [each for each in found if each.changing]


def _decides(board: Leaderboard) -> tuple[object, frozenset[str]]:
    return _ranks_by(board), frozenset(board.devices)


def _places(session: Session, board: Leaderboard, device: str) -> dict[_Key, _Place]:
    """Return each user's place in each class's ranking, in their order; none where the device is not judged on."""
    if device not in board.devices:
        return {}
    found = standings.bests(session, board_id=board.id, device=device)
    places = {}
    for host_class, part in groupby(found, key=lambda each: each.host_class):
        its = list(part)
        for each, rank in zip(its, scoring.band_heads(each.placed for each in its), strict=True):
            places[each.user_id, host_class] = _Place(rank, each.submission_id, each.score_s)
    return places


def _compared(
    session: Session, device: str, before: Mapping[_Key, _Place], after: Mapping[_Key, _Place], most: int
) -> RankChanges:
    changing = [
        key
        for key in dict.fromkeys([*before, *after])
        if key not in before or key not in after or before[key].rank != after[key].rank
    ]
    shown = changing[:most]
    names = users.names(session, [user_id for user_id, _ in shown])
    return RankChanges(
        device=device,
        entries=len(before),
        leaving=sum(key not in after for key in before),
        changing=len(changing),
        moves=tuple(_move(names[each[0]], before.get(each), after.get(each)) for each in shown),
    )


def _move(user: str, old: _Place | None, new: _Place | None) -> Move:
    stands = new or old
    assert stands is not None
    return Move(
        user=user,
        old_rank=None if old is None else old.rank,
        new_rank=None if new is None else new.rank,
        submission_id=stands.submission_id,
        score_s=stands.score_s,
    )
