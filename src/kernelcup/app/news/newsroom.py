"""The loop in each server that records timed news, delivers news, deletes old ones and tells admins of problems.

Several servers may share a database: a fact is stored once, and a delivery is leased.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from kernelcup.app.boards.queries import boards, late_exceptions
from kernelcup.app.news.delivery import Deliveries, DeliveryFailed, Postman
from kernelcup.app.news.queries import news
from kernelcup.app.news.queries.news import Fact
from kernelcup.app.results import profile_files
from kernelcup.domain import Leaderboard, NewsKind
from kernelcup.engine import Database, Session
from kernelcup.errors import StorageUnavailable

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
    found = news.timed(session, since=now - FINAL_WITHIN, until=now, ahead=now + AHEAD)
    return [
        fact
        for board in boards.some(session, found).values()
        for fact in _due(board, now)
        if not news.has_key(session, fact.key)
        and (fact.kind is not NewsKind.FINAL or _is_final(session, board, now))
    ]


def _due(board: Leaderboard, now: datetime) -> Iterator[Fact]:
    board_id, deadline, opens_at = board.id, board.deadline, board.opens_at or board.created_at
    over = deadline is not None and deadline <= now
    if now - STALE <= opens_at <= now and not over:
        key = f"opened:{board_id}:{opens_at.isoformat()}"
        yield Fact(key=key, kind=NewsKind.OPENED, at=opens_at, board_id=board_id, moment=deadline)
    if deadline is None:
        return
    announced_at = deadline - AHEAD
    if announced_at <= now < deadline and opens_at < announced_at:
        key = f"deadline:{board_id}:{deadline.isoformat()}"
        yield Fact(key=key, kind=NewsKind.DEADLINE, at=announced_at, board_id=board_id, moment=deadline)
    recent = now - FINAL_WITHIN <= deadline <= now
    if recent and (board.freeze_at is None or board.freeze_at > now):
        key = f"final:{board_id}:{deadline.isoformat()}"
        yield Fact(key=key, kind=NewsKind.FINAL, at=now, board_id=board_id, moment=deadline)


def _is_final(session: Session, board: Leaderboard, now: datetime) -> bool:
    """Return whether nothing can change the standings any more: no late submission, no job under way."""
    late = late_exceptions.latest(session, board.id)
    if late is not None and late > now:
        return False
    return not boards.open_jobs(session, board.id, board.devices)


EVERY_S = 3.0
"""News are promised within 15 s, and a request that takes 10 s may come before."""

GRACE_S = 2.0
PRUNED_EVERY = timedelta(hours=1)
KEPT_FOR = timedelta(days=90)
"""Longer than a bot or a webhook is away, and than a time could be recorded a second time."""
KEPT_OF_BOARD = 100
"""The newest news of each leaderboard are kept however old they are, for feeds and the API."""
AT_ONCE = 1000
"""How many are deleted in one transaction, since other writers wait for it."""
LOOKED_EVERY = timedelta(minutes=5)
"""How often problems are looked for; the first time later, since machines come back after a server does."""

logger = logging.getLogger(__name__)


def in_thread(work: Callable[[], None]) -> None:
    """Run a function in the background of the loop."""
    threading.Thread(target=work, name="webhook", daemon=True).start()


def prune(db: Database, now: datetime) -> int:
    """Delete some of the news that are too old for every reader; return how many, ``AT_ONCE`` if there may be more."""
    with db.read() as session:
        old = news.old_ids(session, before=now - KEPT_FOR, keep=KEPT_OF_BOARD, limit=AT_ONCE)
    if old:
        with db.write() as session:
            news.remove(session, old)
    return len(old)


class Newsroom:
    """Works in a thread of its own until it is stopped."""

    def __init__(
        self,
        db: Database,
        postman: Postman,
        *,
        clock: Callable[[], datetime],
        beside: Callable[[Callable[[], None]], None] = in_thread,
        tell_problems: Callable[..., None] = lambda **_: None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._next_pruning: datetime | None = None
        self._next_look = clock() + LOOKED_EVERY
        self._tell_problems = tell_problems
        self._stop = threading.Event()
        self._deliveries = Deliveries(postman, beside=beside)
        self._thread = threading.Thread(target=self._run, name="newsroom", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Running deliveries get a moment to end; the next server sends the rest."""
        self._stop.set()
        self._thread.join()
        self._deliveries.wait(GRACE_S)

    def step(self) -> None:
        """Record times that were reached, start due deliveries; from time to time delete old news, tell of problems."""
        now = self._clock()
        note_due(self._db, now)
        self._deliveries.start_due()
        if self._next_pruning is None or now >= self._next_pruning:
            has_more = prune(self._db, now) == AT_ONCE
            self._next_pruning = now if has_more else now + PRUNED_EVERY
            if not has_more:  # to list all files takes long, and longer where they cannot be reached
                profile_files.prune(self._db, now)
        if now >= self._next_look:
            self._next_look = now + LOOKED_EVERY
            self._tell_problems(now=now)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self.step()
            except (StorageUnavailable, DeliveryFailed) as error:
                logger.warning("no news now: %s", error)
            except Exception:  # a faulty news item must not hold back the others
                logger.exception("news cannot be processed now")
