"""Live events for many who watch: one look at the database serves them all."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from anyio import to_thread

from kernelcup.errors import StorageUnavailable
from kernelcup.services import events
from kernelcup.storage.database import Database
from kernelcup.storage.events import Event

POLL_S = 0.25
OVERLAP = 200
"""Events are numbered before they are committed, so an earlier one may turn up later: we look back."""
REMEMBERED = 10_000

logger = logging.getLogger(__name__)

Mailbox = asyncio.Queue[Event]


class EventHub:
    """Hands new events to the mailboxes of those who watch their submission."""

    def __init__(self, db: Database, *, clock: Callable[[], datetime]) -> None:
        self._db = db
        self._clock = clock
        self._mailboxes: dict[int, set[Mailbox]] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._newest: int | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> int:
        """How many watch."""
        return sum(len(boxes) for boxes in self._mailboxes.values())

    @asynccontextmanager
    async def watch(self, submission_id: int) -> AsyncIterator[Mailbox]:
        """Open a mailbox for one submission's events."""
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
                    self._newest = await to_thread.run_sync(events.newest_id, self._db)
                self._deliver(await to_thread.run_sync(self._read))
            except StorageUnavailable as error:
                logger.warning("events cannot be read now: %s", error)
            await asyncio.sleep(POLL_S)

    def _read(self) -> list[Event]:
        newest = self._newest or 0
        return events.changes(self._db, max(newest - OVERLAP, 0), limit=OVERLAP + 2000)

    def _deliver(self, found: list[Event]) -> None:
        for event in found:
            self._newest = max(self._newest or 0, event.id)
            if event.id in self._seen:
                continue
            self._seen[event.id] = None
            for mailbox in self._mailboxes.get(event.submission_id, ()):
                mailbox.put_nowait(event)
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
