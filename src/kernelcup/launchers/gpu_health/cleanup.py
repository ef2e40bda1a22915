"""Remove what the dedicated users of runs left behind on the machine.

A sandbox has its own temporary folder and shared memory, so these users should never leave anything in the
machine's. Only root runs jobs under these ids, so only root checks.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelcup_harness.isolation import layout
from kernelcup_harness.isolation.sandbox import FOLDER_PREFIX

USER_IDS = frozenset(layout.USER_IDS).union(*layout.OWN_IDS)
FOLDERS = ("/dev/shm", "/dev/mqueue", "/var/tmp", tempfile.gettempdir())
PROC = Path("/proc")
_IPC_RMID = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Swept:
    """The result of a sweep."""

    removed: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    """Objects that could not be removed."""


def sweep(
    *, user_ids: frozenset[int] = USER_IDS, folders: Sequence[str] = FOLDERS, proc: Path = PROC
) -> Swept:
    """Remove what these users left behind, unless they have a live process, which may be another slot's job."""
    if os.geteuid() != 0 or _are_alive(user_ids, proc):
        return Swept()
    found = [*_files(user_ids, dict.fromkeys(folders)), *_system_v(user_ids, proc)]
    outcomes = [(name, remove()) for name, remove in found]
    return Swept(
        removed=tuple(name for name, done in outcomes if done),
        stuck=tuple(name for name, done in outcomes if not done),
    )


Found = tuple[str, Callable[[], bool]]
"""The name of an object, and the function that removes it, which returns True once it is gone."""


def _are_alive(user_ids: frozenset[int], proc: Path) -> bool:
    for entry in proc.iterdir():
        try:
            if entry.name.isdecimal() and entry.stat().st_uid in user_ids:
                return True
        except OSError:
            continue  # it has ended meanwhile
    return False


def _files(user_ids: frozenset[int], folders: Iterable[str]) -> Iterator[Found]:
    for folder in folders:
        try:
            entries = [Path(entry) for entry in os.scandir(folder)]
        except OSError:
            continue  # not every machine has all of them
        for path in entries:
            try:
                owner = path.lstat().st_uid
            except OSError:
                continue
            if owner in user_ids and not _is_runners(path):
                yield str(path), partial(_remove, path)


def _is_runners(path: Path) -> bool:
    """Return whether a runner created it, perhaps for a job without a process yet; runners remove their own."""
    return path.name.startswith(FOLDER_PREFIX) and path.parent == Path(tempfile.gettempdir())


def _remove(path: Path) -> bool:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # does not follow links, even if they were created just now
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _system_v(user_ids: frozenset[int], proc: Path) -> Iterator[Found]:
    libc = ctypes.CDLL(None)
    removers: dict[str, Callable[[int], int]] = {
        "shm": lambda number: libc.shmctl(number, _IPC_RMID, None),
        "sem": lambda number: libc.semctl(number, 0, _IPC_RMID),
        "msg": lambda number: libc.msgctl(number, _IPC_RMID, None),
    }
    for kind, remove in removers.items():
        for number in _system_v_ids(user_ids, proc / "sysvipc" / kind):
            yield f"System V {kind} {number}", partial(_succeeds, remove, number)


def _succeeds(remove: Callable[[int], int], number: int) -> bool:
    return remove(number) == 0


def _system_v_ids(user_ids: frozenset[int], table: Path) -> list[int]:
    try:
        head, *rows = [line.split() for line in table.read_text().splitlines()]
    except (OSError, ValueError):
        return []  # the kernel does not support it
    owner, creator = head.index("uid"), head.index("cuid")
    return [int(row[1]) for row in rows if {int(row[owner]), int(row[creator])} & user_ids]
