"""Put SQLite's write-ahead log on the disk, once for many commits."""

from __future__ import annotations

import os
import threading
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
        self._asked = 0
        self._done = 0
        self._failed: list[tuple[range, OSError]] = []
        self._busy = False

    @property
    def waiting(self) -> int:
        """How many wait for the disk."""
        with self._state:
            return self._asked - self._done

    def wait(self) -> None:
        """Return once all that was committed before is on the disk. Raise ``StorageUnavailable``."""
        with self._state:
            self._asked += 1
            mine = self._asked
            self._state.wait_for(lambda: self._done >= mine or not self._busy)
            if self._done < mine:
                self._busy = True
                batch = range(self._done + 1, self._asked + 1)
        if self._done < mine:
            self._lead(batch)
        self._raise_for(mine)

    def _lead(self, batch: range) -> None:
        """Write to the disk for all who wait by now. Others come later: their commits may not be covered."""
        error = None
        try:
            self._sync()
        except OSError as raised:
            error = raised
        with self._state:
            self._busy = False
            self._done = batch[-1]
            if error is not None:
                self._failed.append((batch, error))
            self._state.notify_all()

    def _sync(self) -> None:
        # Not the database's file: closing it would end SQLite's locks on it. The log has none.
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def _raise_for(self, mine: int) -> None:
        for batch, error in self._failed:
            if mine in batch:
                raise StorageUnavailable(f"database: the disk did not take it: {error}") from error
