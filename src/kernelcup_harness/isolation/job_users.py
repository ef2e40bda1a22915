"""User ids of one runner alone: the machine counts processes by user, and one job could leave none to another.

In a sandbox in which jobs share /dev/shm with the machine, the owner is the one mark of a file there that a job cannot
change. So no two runners have an id in common: each holds a set of them by a lock, which ends with it. Files of an id
are removed before its next process starts and after the job, and those of killed runners before the next job. Only
root can do this.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os

from kernelcup_harness.isolation.disk_usage import SHARED_MEMORY
from kernelcup_harness.isolation.layout import OWN_IDS, USER_IDS

LOCKS = "/tmp/kernelcup-users-"
"""The same for all runners, whatever their TMPDIR: they share the ids."""


def begin(user_id: int) -> int:
    """Return this runner's own id for one of ``USER_IDS``, with no file left of it. Raise ``OSError`` without one."""
    own = held(os.getpid())[USER_IDS.index(user_id)]
    remove_files(own)
    return own


def leave() -> None:
    """Remove the files that a job of this runner has left."""
    if held.cache_info().currsize:
        remove_files(*held(os.getpid()))


def sweep() -> None:
    """Remove the files that killed runners have left."""
    for ids in OWN_IDS:
        if (lock := locked(ids, 0)) is not None:
            remove_files(*ids)
            os.close(lock)


@functools.cache
def held(_runner: int) -> range:
    """Return the ids of this runner, which it holds to its end."""
    found = next((ids for ids in OWN_IDS if locked(ids, os.O_CREAT) is not None), None)
    if found is None:
        raise OSError("no user ids are free for one more runner")
    return found


def locked(ids: range, flags: int) -> int | None:
    """Return the descriptor of a set's lock, None if it cannot be had: another runner has it, or there is no file."""
    try:
        lock = os.open(f"{LOCKS}{ids[0]}", os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    except OSError:
        return None
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    os.close(lock)
    return None


def remove_files(*user_ids: int) -> None:
    """Remove the files of users in /dev/shm. There are no folders: a job may not make any."""
    for path in SHARED_MEMORY.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid in user_ids:
                path.unlink()
