"""More time for one person on all leaderboards of a course."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from kernelcup.app.boards.late_exceptions import find_user
from kernelcup.app.boards.queries import late_exceptions
from kernelcup.app.courses import courses
from kernelcup.app.courses.courses import CourseName
from kernelcup.app.courses.queries import members
from kernelcup.app.operation import Given, User, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.reporting.phrases import plural

MOST_DAYS = 365


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """A person's own deadline on a leaderboard."""

    leaderboard: str
    until: datetime


@operation("PUT", "/courses/{name}/late/{user}", "course extend", subject="courses")
def extend(
    db: Database,
    actor: Actor,
    name: CourseName,
    user: User,
    days: Annotated[
        int, Given(options=("--days",), least=1, most=MOST_DAYS, help="Days after each deadline.")
    ],
    *,
    now: datetime,
) -> list[Extension]:
    """Give a member more time on all leaderboards that a course has now; nothing counts as late until then.

    An exception that ends later stays.

    Raises:
        NotFound: The user is not a member.
        InvalidValue: No leaderboard has a deadline that the days would move beyond now.
    """
    with db.write() as session:
        course = courses.managed(session, name, actor)
        user_id, found = find_user(session, user)
        if not members.is_member(session, course.id, user_id):
            raise NotFound(f"{found} is not a member of course {course.name!r}.")
        granted: list[Extension] = []
        for board in courses.boards_of(session, course):
            until = None if board.deadline is None else board.deadline + timedelta(days=days)
            if until is not None and until > now:
                own = {"board_id": board.id, "user_id": user_id}
                until = late_exceptions.put(session, **own, until=until, keeps_later=True)
                granted.append(Extension(leaderboard=board.name, until=until))
        if not granted:
            raise InvalidValue(
                f"No leaderboard of {course.name!r} has a deadline that {plural(days, 'day moves', 'days move')} "
                "into the future."
            )
        detail = {"user": found, "days": days}
        audit_log.record(session, actor, "course.extend", f"course:{course.name}", detail, now)
    return granted
