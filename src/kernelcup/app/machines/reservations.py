"""Reserve machines for a leaderboard, or for their maintenance.

While a reservation lasts, its machines begin no jobs of other leaderboards; jobs that run when it begins end first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.queries import boards
from kernelcup.app.machines.machines import Changed
from kernelcup.app.machines.queries import machines
from kernelcup.app.machines.queries import reservations as rows
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.domain.answers import Reservation
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, NotFound

LONGEST_REASON = 500


@operation("POST", "/reservations", subject="machines", status=201)
def reserve(
    db: Database,
    names: Annotated[list[str], Given(key="machines", most=1000, help="The machines.")],
    *,
    board: Annotated[
        str | None, Given(help="The leaderboard that has them alone; null for maintenance.")
    ] = None,
    begins_at: Annotated[datetime, Given(help="When it begins.")],
    ends_at: Annotated[datetime, Given(help="When it ends, later than now and than its beginning.")],
    reason: Annotated[str, Given(help="What users are told.", longest=LONGEST_REASON)] = "",
    actor: Actor = OPERATOR,
    now: datetime,
) -> list[int]:
    """Reserve machines for a leaderboard, or for maintenance; return the number of each reservation.

    Raises:
        NotFound: There is no such machine or leaderboard.
        InvalidValue: No machine is named, the reason is too long, or it would end before it begins.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if not names or len(reason) > LONGEST_REASON:
        raise InvalidValue(f"Name a machine, and a reason of at most {LONGEST_REASON} characters.")
    if ends_at <= max(begins_at, now):
        raise InvalidValue(
            f"A reservation from {begins_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC has no time left."
        )
    with db.write(durable=True) as session:
        found = None if board is None else boards.find(session, board)
        if board is not None and found is None:
            raise NotFound(f"There is no leaderboard {board!r}.")
        for name in names:
            if machines.find(session, name) is None:
                raise NotFound(f"There is no machine {name!r}.")
        numbers = rows.add(
            session,
            sorted(set(names)),
            board_id=None if found is None else found.id,
            begins_at=begins_at,
            ends_at=ends_at,
            reason=reason.strip(),
        )
        detail = {"board": board, "begins_at": begins_at.isoformat(), "ends_at": ends_at.isoformat()}
        for name in sorted(set(names)):
            audit_log.record(session, actor, "machine.reserve", f"machine:{name}", detail, now)
    return numbers


@operation("DELETE", "/reservations/{reservation_id}", "admin machines release", subject="machines")
def cancel(
    db: Database,
    reservation_id: Annotated[int, Given(metavar="NUMBER", least=1, help="Number of the reservation.")],
    *,
    actor: Actor = OPERATOR,
    now: datetime,
) -> Changed:
    """End a reservation or maintenance, or one that is to come.

    Raises:
        NotFound: There is no such reservation.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.write(durable=True) as session:
        if not rows.remove(session, reservation_id):
            raise NotFound(f"There is no reservation {reservation_id}.")
        audit_log.record(session, actor, "machine.release", f"reservation:{reservation_id}", {}, now)
    return Changed(name=str(reservation_id))


def reserved_now(db: Database, *, now: datetime) -> frozenset[str]:
    """Return the machines that are reserved now, for whatever leaderboard."""
    with db.read() as session:
        return frozenset(each.machine for each in rows.since(session, now) if each.keeps_out(None, now))


@operation("GET", "/reservations", "admin machines reservations", subject="machines")
def list_reservations(db: Database, actor: Actor = OPERATOR, *, now: datetime) -> list[Reservation]:
    """List the reservations and maintenance of machines that have not ended. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.read() as session:
        return rows.since(session, now)
