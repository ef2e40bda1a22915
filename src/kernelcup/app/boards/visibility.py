"""What a viewer sees of other users on a leaderboard: the names, and up to which time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.courses.queries import members
from kernelcup.app.events.queries import teams
from kernelcup.app.people.queries import users
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import LARGEST_ID, Actor, Leaderboard, UserName
from kernelcup.engine import Session

UNNAMED = "participant"
"""A user without a pseudonym is ``participant 7``, after the number of their first submission to the board."""

_UNNAMED = re.compile(rf"{UNNAMED} (\d{{1,10}})", re.IGNORECASE | re.ASCII)


def is_masked(board: Leaderboard, viewer: Actor) -> bool:
    """Return whether the viewer sees others under their pseudonyms only."""
    return board.pseudonymous and not access.inspects_board(viewer, board)


def shown_names(
    session: Session, board: Leaderboard, names: Mapping[int, str], viewer: Actor
) -> dict[int, UserName]:
    """Return the names under which the viewer sees each user, by user id; ``names`` has those of their accounts.

    Whom the viewer sees under a pseudonym has no shown name; of who competes in a team it is the team's.
    """
    masked = is_masked(board, viewer)
    others = {user_id for user_id in names if masked and user_id != viewer.user_id}
    known = users.shown_names(session, names.keys() - others)
    if board.event:
        known |= teams.names(session, board.id, names.keys() - others)
    shown = {user_id: UserName(name, known.get(user_id, "")) for user_id, name in names.items()}
    if others:
        chosen = members.pseudonyms(session, board.course_id, others)
        first = submissions.firsts(session, board.id, others - chosen.keys())
        shown |= {each: UserName(chosen.get(each) or _unnamed(first.get(each))) for each in others}
    return shown


def find_shown(session: Session, board: Leaderboard, name: str, viewer: Actor) -> int | None:
    """Return the id of the user whom the viewer sees under a name, None if there is none."""
    if viewer.user_id is not None and name == viewer.name:
        return viewer.user_id  # all see themselves under their own names
    found = users.find_name(session, name)
    if not is_masked(board, viewer) or (found is not None and found[0] == viewer.user_id):
        return None if found is None else found[0]
    chosen = members.with_pseudonym(session, board.course_id, name)
    if chosen is not None:
        return chosen
    match = _UNNAMED.fullmatch(name)
    number = LARGEST_ID + 1 if match is None else int(match[1])
    first = submissions.find(session, number) if number <= LARGEST_ID else None
    if first is None or first.leaderboard_id != board.id:
        return None
    shown = shown_names(session, board, {first.user_id: first.user}, viewer)
    return first.user_id if shown[first.user_id].user.lower() == name.lower() else None


def hidden_since(board: Leaderboard, viewer: Actor) -> datetime | None:
    """Return the time of the freeze after which others' results are hidden from the viewer, None without one."""
    return None if access.inspects_board(viewer, board) else board.freeze_at


def _unnamed(first: int | None) -> str:
    return UNNAMED if first is None else f"{UNNAMED} {first}"
