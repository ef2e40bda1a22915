"""The loop that notes the moments that come, sends news out and deletes old ones, in each server.

Several may run on one database: a fact is stored once, and a delivery is leased.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from kernelcup.errors import StorageUnavailable
from kernelcup.services.news import moments, pruning
from kernelcup.services.news.delivery import Deliveries, Postman
from kernelcup.storage.database import Database

EVERY_S = 3.0
"""News are promised within 15 s: a request of 10 s may go before."""

GRACE_S = 2.0
PRUNED_EVERY = timedelta(hours=1)

logger = logging.getLogger(__name__)


def in_thread(work: Callable[[], None]) -> None:
    """Do something beside the loop."""
    threading.Thread(target=work, name="webhook", daemon=True).start()


class Newsroom:
    """Works in a thread of its own until it is stopped."""

    def __init__(
        self,
        db: Database,
        postman: Postman,
        *,
        clock: Callable[[], datetime],
        beside: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._db = db
        self._clock = clock
        self._next_pruning: datetime | None = None
        self._stop = threading.Event()
        self._deliveries = Deliveries(postman, beside=beside)
        self._thread = threading.Thread(target=self._run, name="newsroom", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End. What is being sent is given a moment; what is left is sent by the next server."""
        self._stop.set()
        self._thread.join()
        self._deliveries.wait(GRACE_S)

    def step(self) -> None:
        """Note what has come, begin what is to be sent, and now and then delete what is old."""
        now = self._clock()
        moments.note_due(self._db, now)
        self._deliveries.start_due()
        if self._next_pruning is None or now >= self._next_pruning:
            has_more = pruning.prune(self._db, now) == pruning.AT_ONCE
            self._next_pruning = now if has_more else now + PRUNED_EVERY

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self.step()
            except StorageUnavailable as error:
                logger.warning("no news now: %s", error)
            except Exception:  # a fact that cannot be told keeps none of the others back
                logger.exception("the news are not told now")
