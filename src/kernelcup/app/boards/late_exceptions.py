"""Late exceptions: users who may submit to a leaderboard after its deadline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app.boards.boards import find_managed
from kernelcup.app.boards.deadlines import parse_deadline
from kernelcup.app.boards.queries import late_exceptions as exception_rows
from kernelcup.app.courses.queries import members
from kernelcup.app.operation import Board, Given, User, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.domain import Actor, Leaderboard, Visibility
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue, NotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class LateException:
    """A user's own deadline, which replaces the leaderboard's."""

    user: str
    until: datetime


@operation("PUT", "/leaderboards/{name}/late/{user}", "admin late grant", subject="rules")
def grant_late(
    db: Database,
    actor: Actor,
    board: Board,
    user: User,
    until: Annotated[
        datetime,
        Given(
            options=("--until",),
            parse=parse_deadline,
            help="End of the exception, in the forms of a deadline; a date without a time means the end of that day.",
        ),
    ],
    *,
    now: datetime,
) -> None:
    """Let a user submit until a given time, whatever the deadline is.

    Raises:
        NotFound: There is no such leaderboard or user.
        InvalidValue: The moment has already passed, the user may submit until then anyway, or is not a member.
    """
    if until <= now:
        raise InvalidValue(f"{until:%Y-%m-%d %H:%M:%S} UTC has already passed.")
    with db.write() as session:
        found = find_managed(session, board, actor)
        user_id, name = find_user(session, user)
        _check_of_use(session, found, user_id, name, until)
        exception_rows.put(session, board_id=found.id, user_id=user_id, until=until)
        detail = {"user": name, "until": until.isoformat()}
        audit_log.record(session, actor, "board.late", f"board:{found.name}", detail, now)


def _check_of_use(session: Session, board: Leaderboard, user_id: int, name: str, until: datetime) -> None:
    """Raise ``InvalidValue`` for an exception that would allow nothing."""
    if board.deadline is not None and until <= board.deadline:
        raise InvalidValue(
            f"Leaderboard {board.name!r} is open until {board.deadline:%Y-%m-%d %H:%M:%S} UTC for all; "
            "an exception has to end later."
        )
    if board.visibility is not Visibility.PUBLIC and not members.is_member(session, board.course_id, user_id):
        raise InvalidValue(f"{name} is not a member of leaderboard {board.name!r}; add them first.")


@operation("DELETE", "/leaderboards/{name}/late/{user}", "admin late revoke", subject="rules")
def revoke_late(db: Database, actor: Actor, board: Board, user: User, *, now: datetime) -> None:
    """Revoke a late exception.

    Raises:
        NotFound: There is none.
    """
    with db.write() as session:
        found = find_managed(session, board, actor)
        user_id, name = find_user(session, user)
        if not exception_rows.remove(session, board_id=found.id, user_id=user_id):
            raise NotFound(f"{name} has no exception for leaderboard {found.name!r}.")
        audit_log.record(session, actor, "board.late_revoke", f"board:{found.name}", {"user": name}, now)


@operation("GET", "/leaderboards/{name}/late", "admin late list", subject="rules")
def late_exceptions(db: Database, actor: Actor, board: Board) -> list[LateException]:
    """List the users who may submit after the deadline."""
    with db.read() as session:
        found = find_managed(session, board, actor)
        return [
            LateException(user=user, until=until)
            for user, until in exception_rows.of_board(session, found.id)
        ]


def find_user(session: Session, name: str) -> tuple[int, str]:
    """Return a user's id and the stored spelling of the name. Raise ``NotFound``."""
    found = users.find_name(session, name)
    if found is None:
        raise NotFound(f"There is no user {name!r}.")
    return found
