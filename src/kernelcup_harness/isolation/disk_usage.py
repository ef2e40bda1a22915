"""Bytes that a sandboxed process has written to files: memory or disk beyond the process's own figures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernelcup_harness.isolation.layout import SandboxedCommand

WRITTEN_FOLDERS = ("tmp", "job", "dev/shm")
SHARED_MEMORY = Path("/dev/shm")


def used(prepared: SandboxedCommand, pid: int) -> int:
    """Return the bytes in the files of a sandbox that was started as process ``pid``."""
    if prepared.scratch is not None:
        owner = prepared.scratch.stat().st_uid if prepared.scratch.exists() else -1
        return below(prepared.scratch) + (owned_in(SHARED_MEMORY, owner) if owner > 0 else 0)
    return max((in_memory(prepared, child) for child in children(pid)), default=0)


def open_memory(pids: Iterable[int], besides: Iterable[int]) -> int:
    """Return the bytes of anonymous memory files that processes hold open, except those of ``besides``.

    Only root can inspect processes of other users; invisible files count as nothing.
    """
    known = {inode for pid in besides for inode in memory_files(pid)}
    found = {inode: size for pid in pids for inode, size in memory_files(pid).items()}
    return sum(size for inode, size in found.items() if inode not in known)


def memory_files(pid: int) -> dict[int, int]:
    """Return inode to bytes of the anonymous memory files that a process holds open."""
    found = {}
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                path = f"/proc/{pid}/fd/{fd}"
                if os.readlink(path).startswith("/memfd:"):
                    status = os.stat(path)
                    found[status.st_ino] = status.st_blocks * 512
    return found


def in_memory(prepared: SandboxedCommand, pid: int) -> int:
    """Return the bytes in the memory folders that a process inside sees.

    Until the sandbox is complete the process sees other folders, which are recognised by their size.
    """
    total = 0
    for name in WRITTEN_FOLDERS:
        with contextlib.suppress(OSError):
            found = os.statvfs(f"/proc/{pid}/root/{name}")
            if found.f_blocks * found.f_frsize in prepared.scratch_sizes:
                total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


def children(pid: int) -> list[int]:
    """Return the ids of the children of a process."""
    with contextlib.suppress(OSError):
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def below(folder: Path) -> int:
    """Return the bytes used by all files below a folder."""
    return sum(taken(entry) for entry in entries_below(str(folder)))


def owned_in(folder: Path, user_id: int) -> int:
    """Return the bytes used by one user's files in a shared folder."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                total += found.st_blocks * 512 if found.st_uid == user_id else 0
    return total


def entries_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield all entries below a folder, without recursion: it may be very deep."""
    left = [folder]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)


def taken(entry: os.DirEntry[str]) -> int:
    """Return the bytes used by a file, 0 if it is gone."""
    with contextlib.suppress(OSError):
        return entry.stat(follow_symlinks=False).st_blocks * 512
    return 0
