"""Timed news: openings, deadlines a day ahead, final standings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from kernelcup.app.boards.queries import boards, late_exceptions
from kernelcup.app.news.queries import news
from kernelcup.app.news.queries.news import Fact, Times
from kernelcup.domain import NewsKind
from kernelcup.engine import Database, Session

AHEAD = timedelta(hours=24)
"""How long before a deadline it is announced."""
STALE = timedelta(hours=24)
"""An opening that is noticed later than this, for example because the service was down, is not news."""
FINAL_WITHIN = timedelta(days=7)
"""How long after a deadline final standings may still be announced."""


def note_due(db: Database, now: datetime) -> int:
    """Record the times that were reached and not recorded yet; return how many."""
    with db.read() as session:
        if not list(_missing(session, now)):
            return 0
    with db.write() as session:
        return sum(news.add(session, fact, now) for fact in _missing(session, now))


def _missing(session: Session, now: datetime) -> list[Fact]:
    found = news.times(session, since=now - FINAL_WITHIN, until=now, ahead=now + AHEAD)
    return [
        fact
        for times in found
        for fact in _due(times, now)
        if not news.has_key(session, fact.key)
        and (fact.kind is not NewsKind.FINAL or _is_final(session, times, now))
    ]


def _due(times: Times, now: datetime) -> Iterator[Fact]:
    board_id, deadline = times.board_id, times.deadline
    over = deadline is not None and deadline <= now
    if now - STALE <= times.opens_at <= now and not over:
        key = f"opened:{board_id}:{times.opens_at.isoformat()}"
        yield Fact(key=key, kind=NewsKind.OPENED, at=times.opens_at, board_id=board_id, moment=deadline)
    if deadline is None:
        return
    announced_at = deadline - AHEAD
    if announced_at <= now < deadline and times.opens_at < announced_at:
        key = f"deadline:{board_id}:{deadline.isoformat()}"
        yield Fact(key=key, kind=NewsKind.DEADLINE, at=announced_at, board_id=board_id, moment=deadline)
    if over and (times.freeze_at is None or times.freeze_at > now):
        key = f"final:{board_id}:{deadline.isoformat()}"
        yield Fact(key=key, kind=NewsKind.FINAL, at=now, board_id=board_id, moment=deadline)


def _is_final(session: Session, times: Times, now: datetime) -> bool:
    """Return whether nothing can change the standings any more: no late submission, no job under way."""
    late = late_exceptions.latest(session, times.board_id)
    if late is not None and late > now:
        return False
    board = boards.some(session, [times.board_id])[times.board_id]
    return not boards.open_jobs(session, board.id, board.devices)
