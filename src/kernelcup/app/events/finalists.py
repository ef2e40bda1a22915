"""From the qualifier to the final: the first of the table of points become members of a members-only leaderboard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app.boards.boards import find_managed
from kernelcup.app.courses import courses
from kernelcup.app.courses.queries import members
from kernelcup.app.events.events import EventName, boards_of, find_managed_event
from kernelcup.app.events.points import table_of
from kernelcup.app.events.queries import teams
from kernelcup.app.operation import BOARD, Given, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.domain import Actor, Visibility
from kernelcup.engine import Database
from kernelcup.errors import Conflict, InvalidValue


@dataclass(frozen=True, kw_only=True, slots=True)
class Advanced:
    """Who came into the final."""

    leaderboard: str
    competitors: list[str]
    """Teams and users by the names that people see, in the order of the table."""
    members: list[str]
    """The accounts that are members of the leaderboard now."""


@operation("POST", "/events/{event}/finalists", "event advance", subject="events")
def advance(
    db: Database,
    actor: Actor,
    event: EventName,
    board: Annotated[
        str, Given(options=("--to",), key=BOARD, help="The members-only leaderboard of the final.")
    ],
    *,
    first: Annotated[
        int, Given(options=("--first",), least=1, most=10_000, help="How many places of the table of points.")
    ],
    now: datetime,
) -> Advanced:
    """Make the first of the table of points members of a members-only leaderboard, in whole teams.

    The points are those that you see, also of frozen leaderboards; those of the final itself do not count.

    Raises:
        InvalidValue: The leaderboard is not members-only.
        Conflict: The table is empty, or you see pseudonyms in it.
    """
    with db.read() as session:
        found = find_managed_event(session, event, actor)
        boards = boards_of(session, found, actor)
    others = [each for each in boards if each.name.lower() != board.lower()]
    rows = table_of(db, found, others, viewer=actor, now=now).rows
    chosen = [row for row in rows if row.place <= first]
    if not chosen or any(row.pseudonym for row in chosen):
        why = "you see pseudonyms in it" if chosen else "nobody has points"
        raise Conflict(f"The table of points of {found.name!r} names nobody for the final: {why}.")
    with db.write(durable=True) as session:
        course = courses.of_board(session, actor, board, now=now)
        target = find_managed(session, board, actor)
        if target.visibility is not Visibility.CLOSED:
            raise InvalidValue(
                f"Leaderboard {target.name!r} is public; make it members-only first, so that a final has members."
            )
        people: dict[int, str] = {}
        for row in chosen:
            named = users.find_name(session, row.user)
            if named is not None:
                team = teams.of_user(session, found.id, named[0])
                people |= dict([named]) if team is None else teams.members(session, team.id)
        for user_id in people:
            members.add(session, course_id=course.id, user_id=user_id, now=now, pseudonym=None)
        detail = {"board": target.name, "users": sorted(people.values())}
        audit_log.record(session, actor, "event.advance", f"event:{found.name}", detail, now)
    return Advanced(
        leaderboard=target.name,
        competitors=[row.shown for row in chosen],
        members=sorted(people.values()),
    )
