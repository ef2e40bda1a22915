"""One look at the database for all who wait for a change of agents' calls, so that waiting costs next to nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

from kernelcup.engine import Database
from kernelcup.errors import StorageUnavailable

LOOK_S = 0.02
"""The pause between two looks at whether the database has changed."""
UNASKED_S = 1.0
"""How often a look is taken though nothing seems to have changed."""

Key = TypeVar("Key", bound=Hashable)

logger = logging.getLogger(__name__)


class CallWatch(Generic[Key]):
    """Wakes those whose call has news, each once; a thread runs while one waits.

    Args:
        look: Returns those of the keys that have news.
    """

    def __init__(self, db: Database, look: Callable[[Collection[Key]], Collection[Key]]) -> None:
        self._db = db
        self._look = look
        self._waiting: dict[Key, Callable[[], None]] = {}
        self._is_new = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, wake: Callable[[], None]) -> None:
        """Have a function called, in another thread, once a key has news; at once after :meth:`close`."""
        with self._lock:
            if not self._is_closed:
                self._waiting[key] = wake
                self._is_new = True
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="agent-calls", daemon=True)
                    self._thread.start()
                return
        wake()

    def forget(self, key: Key) -> None:
        """Do not wake for a key any more."""
        with self._lock:
            self._waiting.pop(key, None)

    def close(self) -> None:
        """Wake all, and end the thread."""
        with self._lock:
            self._is_closed = True
        self._wake(list(self._waiting))

    def _run(self) -> None:
        while True:
            try:
                self._watch()
            except Exception as error:  # they would wait to the end of their patience
                is_passing = isinstance(error, StorageUnavailable)
                logger.warning(
                    "calls of agents cannot be read now: %s", error, exc_info=None if is_passing else error
                )
                with self._lock:
                    if not self._waiting:  # no caller waits, and the database may be closed
                        self._thread = None
                        return
                time.sleep(UNASKED_S)
            else:
                return

    def _watch(self) -> None:
        look_at = 0.0
        with self._db.changes() as has_changed:
            while True:
                with self._lock:
                    keys, is_new = list(self._waiting), self._is_new
                    self._is_new = False
                    if not keys:
                        self._thread = None
                        return
                if has_changed() or is_new or time.monotonic() >= look_at:
                    look_at = time.monotonic() + UNASKED_S
                    self._wake(self._look(keys))
                time.sleep(LOOK_S)

    def _wake(self, keys: Collection[Key]) -> None:
        for key in keys:
            with self._lock:
                wake = self._waiting.pop(key, None)
            if wake is not None:
                wake()
