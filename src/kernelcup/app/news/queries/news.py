"""News of leaderboards, in the order in which they were recorded, and which of them a user was told by the bell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from kernelcup.app.results.queries.ruling import without
from kernelcup.domain import ASIDE, NewsKind
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    BoardEventRow,
    JobRow,
    LeaderboardRow,
    NewsRow,
    RegistrationRow,
    SubmissionRow,
    UserRow,
    WebhookDeliveryRow,
    WebhookRow,
)

ORDER_LOCK = 23_006
"""The advisory lock of PostgreSQL under which news get their numbers, so that they become visible in that order."""


FOR_BELL = tuple(kind.value for kind in NewsKind if kind.is_for_bell)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A fact to be recorded as news."""

    key: str
    """Identifies the fact, which is stored only once."""
    kind: NewsKind
    at: datetime
    board_id: int
    device: str = ""
    submission_id: int | None = None
    user_id: int | None = None
    score_s: float | None = None
    speedup: float | None = None
    tied: bool = False
    other_id: int | None = None
    recipient_id: int | None = None
    moment: datetime | None = None
    verdict: str = ""
    text: str = ""
    """What was said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """A stored news item, with true names."""

    id: int
    kind: NewsKind
    at: datetime
    board_id: int
    board: str
    device: str
    submission_id: int | None
    user_id: int | None
    user: str
    score_s: float | None
    speedup: float | None
    tied: bool
    other_id: int | None
    other: str
    recipient_id: int | None
    moment: datetime | None
    verdict: str
    text: str


def add(session: Session, fact: Fact, now: datetime) -> bool:
    """Store a fact as :func:`add_all` does; return whether it is new."""
    return add_all(session, [fact], now) == 1


def add_all(session: Session, facts: Sequence[Fact], now: datetime) -> int:
    """Store facts about one leaderboard, queue them for its webhooks, and return how many are new.

    Webhooks do not get what only the bell tells, lost ranks (one update may take all of them), nor what is said to
    one person.

    Take all other locks before: until the transaction ends, no other news get a number.
    """
    if not facts:
        return 0
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": ORDER_LOCK})
    rows = [
        {name: getattr(fact, name) for name in Fact.__slots__ if name not in ("board_id", "kind")}
        | {"kind": fact.kind.value, "leaderboard_id": fact.board_id}
        for fact in facts
    ]
    offer = upsert(session, NewsRow).values(rows).on_conflict_do_nothing()
    made = session.execute(offer.returning(NewsRow.id, NewsRow.kind)).all()
    sent = sorted(row.id for row in made if not NewsKind(row.kind).is_private)
    receivers = session.scalars(_RECEIVERS, {"board_id": facts[0].board_id}).all() if sent else ()
    deliveries = [
        {"webhook_id": webhook_id, "news_id": number, "next_at": now}
        for number in sent
        for webhook_id in receivers
    ]
    if deliveries:
        session.execute(insert(WebhookDeliveryRow), deliveries)
    return len(made)


_RECEIVERS = select(WebhookRow.id).where(
    WebhookRow.leaderboard_id == bindparam("board_id"), WebhookRow.disabled_at.is_(None)
)


def page(
    session: Session,
    *,
    board_ids: Collection[int],
    reader_id: int | None = None,
    after_id: int | None = None,
    limit: int,
) -> list[News]:
    """Return news of some leaderboards, oldest first: those after a given one, else the newest.

    What only the bell tells is left out.

    Args:
        board_ids: The leaderboards.
        reader_id: Include news that are addressed to this user.
        after_id: Return only news after this one.
        limit: The maximum number of items.
    """
    personal = NewsRow.recipient_id.is_(None)
    whom = personal if reader_id is None else or_(personal, NewsRow.recipient_id == reader_id)
    query = (
        shown().where(NewsRow.leaderboard_id.in_(board_ids), whom, NewsRow.kind.not_in(FOR_BELL)).limit(limit)
    )
    if after_id is not None:
        return load(session, query.where(NewsRow.id > after_id).order_by(NewsRow.id))
    return load(session, query.order_by(NewsRow.id.desc()))[::-1]


def addressed(session: Session, *, after_id: int, limit: int) -> list[News]:
    """Return news that are addressed to one user each, oldest first, without what only the bell tells."""
    query = shown().where(
        NewsRow.recipient_id.is_not(None), NewsRow.kind.not_in(FOR_BELL), NewsRow.id > after_id
    )
    return load(session, query.order_by(NewsRow.id).limit(limit))


def find(session: Session, news_id: int) -> News | None:
    """Return a news item if it may be shown now, else None."""
    found = load(session, shown().where(NewsRow.id == news_id))
    return found[0] if found else None


def newest_id(session: Session) -> int:
    """Return the number of the newest news item, 0 if there is none."""
    return session.scalars(select(NewsRow.id).order_by(NewsRow.id.desc()).limit(1)).first() or 0


def old_ids(session: Session, *, before: datetime, keep: int, limit: int) -> list[int]:
    """Return news from before a given time that are no longer needed, at most ``limit``.

    The newest ``keep`` of each leaderboard are kept for feeds, and so are news with a pending delivery.
    """
    is_open = NewsRow.recipient_id.is_(None)
    newest = func.row_number().over(
        partition_by=(NewsRow.leaderboard_id, is_open), order_by=NewsRow.id.desc()
    )
    numbered = select(NewsRow.id, NewsRow.at, is_open.label("is_open"), newest.label("number")).subquery()
    waits = exists().where(WebhookDeliveryRow.news_id == numbered.c.id)
    query = (
        select(numbered.c.id)
        .where(numbered.c.at < before, or_(~numbered.c.is_open, numbered.c.number > keep), ~waits)
        .order_by(numbered.c.id)
        .limit(limit)
    )
    return list(session.scalars(query))


def remove(session: Session, ids: Collection[int]) -> None:
    """Delete news."""
    session.execute(delete(NewsRow).where(NewsRow.id.in_(ids)))


def timed(session: Session, *, since: datetime, until: datetime, ahead: datetime) -> list[int]:
    """Return leaderboards that may have opened from ``since`` to ``until``, or close from ``since`` to ``ahead``."""
    board, event = LeaderboardRow, BoardEventRow
    opening = (
        and_(board.opens_at.is_(None), _between(board.created_at, since, until)),
        *(_between(each.opens_at, since, until) for each in (board, event)),
    )
    ends = (board.deadline, event.qualifier_at, event.ends_at)
    query = select(board.id).outerjoin(event, event.id == board.event_id).order_by(board.id)
    return list(session.scalars(query.where(or_(*opening, *(_between(each, since, ahead) for each in ends)))))


def has_key(session: Session, key: str) -> bool:
    """Return whether a fact is stored."""
    return session.scalars(select(NewsRow.id).where(NewsRow.key == key)).first() is not None


def _between(
    column: InstrumentedAttribute[datetime] | InstrumentedAttribute[datetime | None],
    since: datetime,
    until: datetime,
) -> ColumnElement[bool]:
    return and_(column >= since, column <= until)


def shown() -> Select[NewsRow, str, str | None, str | None]:
    """Return the query of news that may be shown: no results after a freeze or under review."""
    user, other = aliased(UserRow), aliased(UserRow)
    of_results = [kind.value for kind in NewsKind if kind.is_of_result]
    is_job = and_(JobRow.submission_id == NewsRow.submission_id, JobRow.device == NewsRow.device)
    return (
        select(NewsRow, LeaderboardRow.name, user.name, other.name)
        .join(LeaderboardRow, LeaderboardRow.id == NewsRow.leaderboard_id)
        .outerjoin(user, user.id == NewsRow.user_id)
        .outerjoin(other, other.id == NewsRow.other_id)
        .outerjoin(JobRow, is_job)
        .where(or_(JobRow.id.is_(None), without(*ASIDE)))
        .where(
            or_(
                NewsRow.kind.not_in(of_results),
                LeaderboardRow.freeze_at.is_(None),
                NewsRow.at <= LeaderboardRow.freeze_at,
            )
        )
    )


def load(session: Session, query: Select[NewsRow, str, str | None, str | None]) -> list[News]:
    return [
        made_of(row, News, board_id=row.leaderboard_id, board=board, user=user or "", other=other or "")
        for row, board, user, other in session.execute(query)
    ]


FOR_ALL = tuple(kind.value for kind in NewsKind if kind.rings_for_all)
MOST_COUNTED = 100


class BellState(NamedTuple):
    """A user's bell."""

    read: int
    wanted: bool


def bell_state(session: Session, user_id: int) -> BellState:
    """Return what a user has read, and whether they want to be told."""
    row = session.execute(select(UserRow.bell_read, UserRow.bell).where(UserRow.id == user_id)).one()
    return BellState(*row)


def set_bell_read(session: Session, user_id: int, until: int) -> None:
    """Store up to which news item a user has read."""
    later = UserRow.bell_read < until
    session.execute(update(UserRow).where(UserRow.id == user_id, later).values(bell_read=until))


def set_bell_wanted(session: Session, user_id: int, wanted: bool) -> None:
    """Store whether a user wants to be told."""
    session.execute(update(UserRow).where(UserRow.id == user_id).values(bell=wanted))


def bell_items(session: Session, user_id: int, *, board_ids: Collection[int], limit: int) -> list[News]:
    """Return the newest news that concern a user, newest first, from leaderboards that they see."""
    query = shown().where(_concerns(user_id, board_ids))
    found = load(session, query.order_by(NewsRow.id.desc()).limit(limit))
    return list({each.text or each.id: each for each in found}.values())


def bell_count(session: Session, user_id: int, *, board_ids: Collection[int], after_id: int) -> int:
    """Return how many news after one concern a user, at most ``MOST_COUNTED``."""
    query = shown().where(_concerns(user_id, board_ids), NewsRow.id > after_id)
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
