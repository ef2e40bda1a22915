"""Times at which a machine judges for one leaderboard only, or for none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.engine.rows import made_of
from kernelcup.tables import LeaderboardRow, ReservationRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """A time at which a machine judges for one leaderboard only, or for none."""

    id: int
    machine: str
    board_id: int | None = None
    """None for maintenance: it judges nothing."""
    board: str | None
    begins_at: datetime
    ends_at: datetime
    reason: str

    def keeps_out(self, board_id: int | None, now: datetime) -> bool:
        """Return whether it keeps the jobs of a leaderboard off its machine now."""
        return self.begins_at <= now < self.ends_at and (self.board_id is None or self.board_id != board_id)


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
