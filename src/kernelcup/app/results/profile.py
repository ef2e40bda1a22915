"""Public profiles: a user's standings on leaderboards that show real names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.people.queries import users
from kernelcup.app.results.queries import frozen_standings
from kernelcup.app.results.standings import personal_bests
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Standing
from kernelcup.engine import Database
from kernelcup.errors import NotFound

MOST_BESTS = 60
"""The number of standings on one page; older leaderboards are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalBest:
    """A user's standing on one (leaderboard, device)."""

    board: Leaderboard
    device: str
    standing: Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A user's profile as the viewer may see it."""

    name: str
    shown_name: str
    """Empty for none."""
    since: datetime
    is_own: bool
    bests: tuple[PersonalBest, ...]


def show_profile(db: Database, name: str, *, viewer: Actor = OPERATOR) -> Profile:
    """Return a user's profile. Raise ``NotFound`` if there is no user of that name.

    Pseudonymous leaderboards are left out of other users' profiles, since they would reveal the pseudonym.
    """
    with db.read() as session:
        user = users.find(session, name)
        if user is None:
            raise NotFound(f"There is no user {name!r}.")
        is_own = user.id == viewer.user_id
        places = frozen_standings.places_of_user(session, user.id)
        wanted = {board_id for board_id, _ in places}
        boards = {
            each.id: each
            for each in (access.visible_boards(session, viewer) if wanted else [])
            if each.id in wanted and (is_own or not visibility.is_masked(each, viewer))
        }
        shown = [(boards[board_id], device) for board_id, device in places if board_id in boards]
        wanted_places = [(board, device) for board, device in shown[:MOST_BESTS] if device in board.devices]
        found = personal_bests(session, wanted_places, user.id, viewer=viewer)
    bests = [PersonalBest(board=board, device=device, standing=standing) for board, device, standing in found]
    return Profile(
        name=user.name, shown_name=user.shown_name, since=user.created_at, is_own=is_own, bests=tuple(bests)
    )
