"""Public profiles: a user's standings on leaderboards that show real names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.boards import visibility
from kernelcup.app.events.queries import teams
from kernelcup.app.people.queries import users
from kernelcup.app.results.queries.frozen_standings import places_of_user
from kernelcup.app.results.standings import personal_bests
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Standing
from kernelcup.engine import Database, Session
from kernelcup.errors import NotFound

MOST_BESTS = 60
"""The number of standings on one page; older leaderboards are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalBest:
    """The standing of a user or their team on one (leaderboard, device)."""

    board: Leaderboard
    device: str
    standing: Standing
    team: str
    """The name of the team whose place it is; empty for a user's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A user's profile as the viewer may see it."""

    name: str
    shown_name: str
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
        places = _places(session, user.id)
        wanted = {board_id for board_id, _, _ in places}
        boards = {
            each.id: each
            for each in (access.visible_boards(session, viewer) if wanted else [])
            if each.id in wanted and (is_own or not visibility.is_masked(each, viewer))
        }
        shown = [(boards[at], device, owner) for at, device, owner in places if at in boards][:MOST_BESTS]
        by_owner: dict[int, list[tuple[Leaderboard, str]]] = {}
        for board, device, owner in shown:
            if device in board.devices:
                by_owner.setdefault(owner, []).append((board, device))
        bests = tuple(
            PersonalBest(
                board=board,
                device=device,
                standing=place,
                team=teams.names(session, board.id, [owner]).get(owner, "") if board.event else "",
            )
            for owner, theirs in by_owner.items()
            for board, device, place in personal_bests(session, theirs, owner, viewer=viewer)
        )
    return Profile(
        name=user.name, shown_name=user.shown_name, since=user.created_at, is_own=is_own, bests=bests
    )


def _places(session: Session, user_id: int) -> list[tuple[int, str, int]]:
    """Return leaderboard, device and owner of a user's places: a team's stand under its captain."""
    found = [(board_id, device, user_id) for board_id, device in places_of_user(session, user_id)]
    found += [
        (board_id, device, captain)
        for captain in sorted(teams.captains(session, user_id) - {user_id})
        for board_id, device in places_of_user(session, captain)
        if teams.competitor(session, board_id, user_id) == captain
    ]
    return found
