"""What everybody may see of a user: where they stand, as far as leaderboards tell who that is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.domain import OPERATOR, Actor, Leaderboard, Standing
from kernelcup.errors import NotFound
from kernelcup.services import access, visibility
from kernelcup.services.rank import personal_best
from kernelcup.storage import accounts, ranking
from kernelcup.storage.database import Database

MOST_BESTS = 60
"""Of one page; older leaderboards are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalBest:
    """Where a user stands on one (leaderboard, device)."""

    board: Leaderboard
    device: str
    standing: Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """What somebody may see of a user."""

    name: str
    since: datetime
    is_own: bool
    bests: tuple[PersonalBest, ...]


def show_profile(db: Database, name: str, *, viewer: Actor = OPERATOR) -> Profile:
    """Return a user's profile. Raise ``NotFound`` where there is no such user.

    Pseudonymous leaderboards are left out of others' profiles: they would tell who hides behind which name.
    """
    with db.read() as session:
        user = accounts.find(session, name)
        if user is None:
            raise NotFound(f"There is no user {name!r}.")
        is_own = user.id == viewer.user_id
        places = ranking.of_user(session, user.id)
        wanted = {board_id for board_id, _ in places}
        boards = {
            each.id: each
            for each in (access.visible_boards(session, viewer) if wanted else [])
            if each.id in wanted and (is_own or not visibility.is_masked(each, viewer))
        }
    shown = [(boards[board_id], device) for board_id, device in places if board_id in boards]
    found = (
        (board, device, personal_best(db, board.name, device, user.name, viewer=viewer))
        for board, device in shown[:MOST_BESTS]
        if device in board.devices
    )
    bests = [
        PersonalBest(board=board, device=device, standing=standing)
        for board, device, standing in found
        if standing is not None
    ]
    return Profile(name=user.name, since=user.created_at, is_own=is_own, bests=tuple(bests))
