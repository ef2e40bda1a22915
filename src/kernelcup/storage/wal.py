"""Put SQLite's write-ahead log on the disk, once for many commits."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from kernelcup.errors import StorageUnavailable


class WalSync:
    """Makes commits outlive a loss of power, as ``synchronous=FULL`` would, for many writers at once.

    SQLite has the disk write at each commit, while all other writers wait: that bounds how many commits
    a second there can be. Here a commit hands its frames to the system and lets the next writer go on;
    only then it waits for the disk, and whoever waits meanwhile has the same wait. The log is what
    SQLite itself would sync, and it is synced before its contents go into the database's file.

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
        """How many wait for the disk and have nobody yet who writes for them."""
        with self._state:
            return self._gathering.size

    def wait(self) -> None:
        """Return once all that was committed before is on the disk. Raise ``StorageUnavailable``."""
        with self._state:
            batch = self._gathering
            batch.size += 1
            self._state.wait_for(lambda: batch.over or not self._busy)
            leads = not batch.over
            if leads:
                # Whoever comes from now on may have committed too late for this one.
                self._busy, self._gathering = True, _Batch()
        if leads:
            self._lead(batch)
        if batch.error is not None:
            raise StorageUnavailable(f"database: the disk did not take it: {batch.error}") from batch.error

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
        # Not the database's file: closing it would end SQLite's locks on it. The log has none.
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)


@dataclass(slots=True)
class _Batch:
    """Those who have the same wait."""

    size: int = 0
    over: bool = False
    error: OSError | None = None
