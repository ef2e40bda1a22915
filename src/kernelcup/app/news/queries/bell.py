"""News that concern one user: addressed to them, or about a leaderboard where they have submitted."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update
from sqlalchemy.orm import Session

from kernelcup.app.news.queries import news
from kernelcup.app.news.queries.news import News
from kernelcup.domain import NewsKind
from kernelcup.tables import LeaderboardRow, NewsRow, RegistrationRow, SubmissionRow, UserRow

FOR_ALL = tuple(kind.value for kind in NewsKind if kind.rings_for_all)
MOST_COUNTED = 100


class State(NamedTuple):
    """A user's bell."""

    read: int
    wanted: bool


def state(session: Session, user_id: int) -> State:
    """Return what a user has read, and whether they want to be told."""
    row = session.execute(select(UserRow.bell_read, UserRow.bell).where(UserRow.id == user_id)).one()
    return State(*row)


def set_read(session: Session, user_id: int, until: int) -> None:
    """Store up to which news item a user has read."""
    later = UserRow.bell_read < until
    session.execute(update(UserRow).where(UserRow.id == user_id, later).values(bell_read=until))


def set_wanted(session: Session, user_id: int, wanted: bool) -> None:
    """Store whether a user wants to be told."""
    session.execute(update(UserRow).where(UserRow.id == user_id).values(bell=wanted))


def items(session: Session, user_id: int, *, board_ids: Collection[int], limit: int) -> list[News]:
    """Return the newest news that concern a user, newest first, from leaderboards that they see."""
    query = news.shown().where(_concerns(user_id, board_ids))
    found = news.load(session, query.order_by(NewsRow.id.desc()).limit(limit))
    return list({each.text or each.id: each for each in found}.values())


def count(session: Session, user_id: int, *, board_ids: Collection[int], after_id: int) -> int:
    """Return how many news after one concern a user, at most ``MOST_COUNTED``."""
    query = news.shown().where(_concerns(user_id, board_ids), NewsRow.id > after_id)
    # What is said in an event is news of each of its leaderboards.
    once = case((NewsRow.text == "", NewsRow.key), else_=NewsRow.text)
    some = query.with_only_columns(once).distinct().limit(MOST_COUNTED).subquery()
    return session.execute(select(func.count()).select_from(some)).scalar_one()


def concerned(session: Session, *, after_id: int) -> dict[int | None, int]:
    """Return for each user whom news after one concern the number of the latest, under None that for all."""
    query = (
        select(NewsRow.recipient_id, func.max(NewsRow.id))
        .where(NewsRow.id > after_id, or_(NewsRow.recipient_id.is_not(None), NewsRow.kind.in_(FOR_ALL)))
        .group_by(NewsRow.recipient_id)
    )
    return {row[0]: row[1] for row in session.execute(query)}


def _concerns(user_id: int, board_ids: Collection[int]) -> ColumnElement[bool]:
    registered = select(RegistrationRow.event_id).where(RegistrationRow.user_id == user_id)
    submitted = select(SubmissionRow.leaderboard_id).where(SubmissionRow.user_id == user_id)
    takes_part = submitted.union(select(LeaderboardRow.id).where(LeaderboardRow.event_id.in_(registered)))
    for_all = and_(
        NewsRow.recipient_id.is_(None), NewsRow.kind.in_(FOR_ALL), NewsRow.leaderboard_id.in_(takes_part)
    )
    return and_(NewsRow.leaderboard_id.in_(board_ids), or_(NewsRow.recipient_id == user_id, for_all))
