"""Times at which a machine judges for one leaderboard only, or for none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Reservation
from kernelcup.engine.rows import made_of
from kernelcup.tables import LeaderboardRow, ReservationRow


def add(
    session: Session,
    names: Sequence[str],
    *,
    board_id: int | None,
    begins_at: datetime,
    ends_at: datetime,
    reason: str,
) -> list[int]:
    """Store a reservation for each of some machines, and return their numbers."""
    rows = [
        ReservationRow(
            machine=name, leaderboard_id=board_id, begins_at=begins_at, ends_at=ends_at, reason=reason
        )
        for name in names
    ]
    session.add_all(rows)
    session.flush()
    return [row.id for row in rows]


def remove(session: Session, reservation_id: int) -> bool:
    """Delete a reservation; return whether it existed."""
    gone = delete(ReservationRow).where(ReservationRow.id == reservation_id).returning(ReservationRow.id)
    return session.execute(gone).first() is not None


def since(session: Session, moment: datetime) -> list[Reservation]:
    """Return the reservations that end after a given time, the first ones first."""
    query = (
        select(ReservationRow, LeaderboardRow.name)
        .outerjoin(LeaderboardRow, LeaderboardRow.id == ReservationRow.leaderboard_id)
        .where(ReservationRow.ends_at > moment)
        .order_by(ReservationRow.begins_at, ReservationRow.machine, ReservationRow.id)
    )
    return [
        made_of(row, Reservation, board_id=row.leaderboard_id, board=board)
        for row, board in session.execute(query)
    ]
