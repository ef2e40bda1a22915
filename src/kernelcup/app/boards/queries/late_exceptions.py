"""Late exceptions: users who may submit to a leaderboard after its deadline."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import case, delete, func, select
from sqlalchemy.orm import Session

from kernelcup.engine.database import upsert
from kernelcup.tables import DeadlineExceptionRow, UserRow


def put(
    session: Session, *, board_id: int, user_id: int, until: datetime, keeps_later: bool = False
) -> datetime:
    """Let a user submit until a given time in place of an earlier exception, and return when theirs ends.

    With ``keeps_later`` an exception that ends later stays.
    """
    insert = upsert(session, DeadlineExceptionRow).values(
        leaderboard_id=board_id, user_id=user_id, until=until
    )
    key, new, old = ["leaderboard_id", "user_id"], insert.excluded.until, DeadlineExceptionRow.until
    ends = case((old > new, old), else_=new) if keeps_later else new
    put = insert.on_conflict_do_update(index_elements=key, set_={"until": ends})
    stored: datetime = session.execute(put.returning(old)).scalar_one()
    return stored


def remove(session: Session, *, board_id: int, user_id: int) -> bool:
    """Delete an exception and return whether there was one."""
    of_user = (DeadlineExceptionRow.leaderboard_id == board_id, DeadlineExceptionRow.user_id == user_id)
    gone = delete(DeadlineExceptionRow).where(*of_user).returning(DeadlineExceptionRow.user_id)
    return session.execute(gone).first() is not None


def until(session: Session, *, board_id: int, user_id: int) -> datetime | None:
    """Return the time until which a user may submit, None without an exception."""
    row = session.get(DeadlineExceptionRow, (board_id, user_id))
    return None if row is None else row.until


def of_users(session: Session, board_id: int) -> dict[int, datetime]:
    """Return the end of each user's exception, by user id."""
    mine = select(DeadlineExceptionRow).where(DeadlineExceptionRow.leaderboard_id == board_id)
    return {row.user_id: row.until for row in session.scalars(mine)}


def latest(session: Session, board_id: int) -> datetime | None:
    """Return when the last exception of a leaderboard ends, None if there are none."""
    newest = select(func.max(DeadlineExceptionRow.until)).where(
        DeadlineExceptionRow.leaderboard_id == board_id
    )
    return session.execute(newest).scalar_one()


def of_board(session: Session, board_id: int) -> list[tuple[str, datetime]]:
    """Return users with the end of their exceptions, sorted by name."""
    query = (
        select(UserRow.name, DeadlineExceptionRow.until)
        .join(DeadlineExceptionRow, DeadlineExceptionRow.user_id == UserRow.id)
        .where(DeadlineExceptionRow.leaderboard_id == board_id)
        .order_by(UserRow.name_key)
    )
    return [(name, moment) for name, moment in session.execute(query)]
