"""Live events for many watchers: one look at the database serves them all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime

from anyio import to_thread

from kernelcup.app.submissions import events
from kernelcup.app.submissions.queries.events import Event
from kernelcup.engine.database import Database
from kernelcup.errors import Overloaded, RateLimited, StorageUnavailable

POLL_S = 0.25
PAGE = 2000
OVERLAP = 200
GAP_S = 30.0
"""Events are numbered before they are committed, so an earlier one may turn up later. So long a number
that was left out is looked for; then its transaction has failed."""
MOST_GAPS = 500

MOST_STREAMS = 20
"""Of one person at once, in each process."""
MOST_STREAMS_OF_ALL = 1024
RETRY_S = 10

logger = logging.getLogger(__name__)

Mailbox = asyncio.Queue[Event]


class EventHub:
    """Delivers new events to the mailboxes of their submission's watchers."""

    def __init__(self, db: Database, *, clock: Callable[[], datetime]) -> None:
        self._db = db
        self._clock = clock
        self._mailboxes: dict[int, set[Mailbox]] = {}
        self._gaps: dict[int, float] = {}
        self._newest: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._streams: Counter[str] = Counter()
        self.most_streams = MOST_STREAMS_OF_ALL

    @property
    def watchers(self) -> int:
        """Return the number of watchers."""
        return sum(len(boxes) for boxes in self._mailboxes.values())

    @property
    def streams(self) -> int:
        """Return the number of open streams, those of rankings included."""
        return self._streams.total()

    def has_room(self, watcher: str) -> bool:
        """Return whether one more stream of this watcher may begin."""
        return self._streams[watcher] < MOST_STREAMS and self.streams < self.most_streams

    def check_room(self, watcher: str) -> None:
        """Raise ``RateLimited`` if the watcher has the maximum number of streams, ``Overloaded`` if all have."""
        if self.streams >= self.most_streams:
            raise Overloaded("There are too many live streams now.", retry_after_s=RETRY_S)
        if not self.has_room(watcher):
            raise RateLimited(
                f"You have {MOST_STREAMS} live streams open already; end one of these streams first.",
                retry_after_s=RETRY_S,
            )

    @asynccontextmanager
    async def watch(self, submission_id: int, watcher: str) -> AsyncIterator[Mailbox]:
        """Open a mailbox for one submission's events. Raise what ``check_room`` does."""
        with self.stream(watcher):
            async with self._mailbox(submission_id) as mailbox:
                yield mailbox

    @contextmanager
    def stream(self, watcher: str) -> Iterator[None]:
        """Count one more stream of a watcher. Raise what ``check_room`` does."""
        self.check_room(watcher)
        self._streams[watcher] += 1
        try:
            yield
        finally:
            self._streams[watcher] -= 1
            if not self._streams[watcher]:
                del self._streams[watcher]

    @asynccontextmanager
    async def _mailbox(self, submission_id: int) -> AsyncIterator[Mailbox]:
        mailbox: Mailbox = asyncio.Queue()
        self._mailboxes.setdefault(submission_id, set()).add(mailbox)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield mailbox
        finally:
            boxes = self._mailboxes[submission_id]
            boxes.discard(mailbox)
            if not boxes:
                del self._mailboxes[submission_id]

    async def _run(self) -> None:
        while self._mailboxes:
            try:
                if self._newest is None:
                    # Not from the newest: a watcher may have read the events before the latest one came.
                    self._newest = max(await to_thread.run_sync(events.newest_id, self._db) - OVERLAP, 0)
                self._deliver(await to_thread.run_sync(self._read))
            except StorageUnavailable as error:
                logger.warning("events cannot be read now: %s", error)
            await asyncio.sleep(POLL_S)
        self._newest = None  # the next watcher does not need the events in between
        self._gaps.clear()

    def _read(self) -> list[Event]:
        return events.changes(self._db, self._newest or 0, limit=PAGE, also=tuple(self._gaps))

    def _deliver(self, found: list[Event]) -> None:
        now = time.monotonic()
        for event in found:
            newest = self._newest or 0
            if event.id > newest:
                self._newest = event.id
                self._gaps |= dict.fromkeys(range(max(newest + 1, event.id - MOST_GAPS), event.id), now)
            elif self._gaps.pop(event.id, None) is None:
                continue  # it was delivered
            for mailbox in self._mailboxes.get(event.submission_id, ()):
                mailbox.put_nowait(event)
        self._gaps = {number: since for number, since in self._gaps.items() if now - since < GAP_S}
