"""Fair turns for writers of a SQLite file."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelcup.errors import StorageUnavailable

LOOK_S = 0.001
"""The interval at which a process's first waiter checks whether another process has finished, in seconds."""


class Turns:
    """Lets all threads and processes that use a file write one after the other.

    SQLite has one writer at a time. Writers that find it busy sleep for longer and longer, up to 100 ms, and the
    one that wakes at the right moment is next, so under load some wait for seconds. Here they wait in line. This
    only improves fairness: SQLite's own lock still decides, so a writer that does not take a turn breaks nothing.

    Args:
        path: The lock file, beside the database.
        patience_s: How long a writer waits for a turn.
    """

    def __init__(self, path: Path, *, patience_s: float) -> None:
        self._path = path
        self._patience_s = patience_s
        self._mine = threading.Lock()
        self._fd = -1

    @contextmanager
    def take(self, *, patience_s: float | None = None) -> Iterator[None]:
        """Wait for a turn and hold it. Raise ``StorageUnavailable`` if it does not come in time, or locking fails."""
        patience = self._patience_s if patience_s is None else patience_s
        until = time.monotonic() + patience
        if not self._mine.acquire(timeout=patience):
            raise self._late()
        try:
            try:
                self._lock_file(until)
            except OSError as error:
                raise StorageUnavailable(f"database: {self._path}: {error.strerror or error}") from error
            try:
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._mine.release()

    def close(self) -> None:
        """Close the lock file."""
        with self._mine:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _lock_file(self, until: float) -> None:
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while True:
            try:
                # Poll instead of blocking in the call: if the holder was suspended, this process could not give up.
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise self._late() from None
                time.sleep(LOOK_S)
            else:
                return

    def _late(self) -> StorageUnavailable:
        return StorageUnavailable(
            f"database is locked: another writer has been active for {self._patience_s:g} s"
        )
