"""Group commit for SQLite: sync the write-ahead log to disk once for many commits."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from kernelcup.errors import StorageUnavailable


class WalSync:
    """Makes commits survive a loss of power, like ``synchronous=FULL``, for many writers at once.

    SQLite would sync the disk at each commit while all other writers wait, which bounds the commits per second.
    Here a commit passes its frames to the operating system and lets the next writer go on; only then does it wait
    for the disk, together with all writers that commit meanwhile. SQLite itself would sync the same log, and it is
    synced before its contents go into the database's file.

    Args:
        path: The log, beside the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = threading.Condition()
        self._gathering = _Batch()
        self._busy = False

    @property
    def waiting(self) -> int:
        """The number of commits that wait for the disk and whose sync has not begun."""
        with self._state:
            return self._gathering.size

    def wait(self) -> None:
        """Return once all earlier commits are on disk. Raise ``StorageUnavailable``."""
        with self._state:
            batch = self._gathering
            batch.size += 1
            self._state.wait_for(lambda: batch.over or not self._busy)
            leads = not batch.over
            if leads:
                # Commits from now on may be too late for this sync.
                self._busy, self._gathering = True, _Batch()
        if leads:
            self._lead(batch)
        if batch.error is not None:
            raise StorageUnavailable(f"database: cannot sync to disk: {batch.error}") from batch.error

    def _lead(self, batch: _Batch) -> None:
        try:
            self._sync()
        except OSError as error:
            batch.error = error
        finally:
            with self._state:
                self._busy, batch.over = False, True
                self._state.notify_all()

    def _sync(self) -> None:
        # Not the database's file: closing it would release SQLite's locks on it. The log has none.
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)


@dataclass(slots=True)
class _Batch:
    """Commits that wait for the same sync."""

    size: int = 0
    over: bool = False
    error: OSError | None = None
