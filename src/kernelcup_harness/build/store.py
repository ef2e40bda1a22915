"""Builds that a machine keeps, each under the hash of its sources.

An entry is one file: a line with the SHA-256 of the rest, and the rest, an archive as
:mod:`kernelcup_harness.build.inside` packs it. No submission ever sees the folder: an archive is copied
into memory before it is handed on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

VARIABLE = "KERNELCUP_HARNESS_BUILDS"
MAX_BUILD_BYTES = 512 << 20
MAX_STORE_BYTES = 4 << 30
SUFFIX = ".build"
UNFINISHED = ".new-"
FIRST_LINE_BYTES = hashlib.sha256().digest_size * 2 + 1
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class TooLarge(Exception):
    """An archive is larger than allowed."""


class Build:
    """An archive in memory, sealed against changes."""

    def __init__(self, fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        self._fd = fd

    @classmethod
    def read(
        cls, source: IO[bytes], *, max_bytes: int, look: Callable[[bytes], None] = lambda _chunk: None
    ) -> Build:
        """Read an archive to its end, showing each piece to ``look``. Raise :class:`TooLarge`."""
        fd = os.memfd_create("kernelcup-build", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        total = 0
        with contextlib.ExitStack() as undo, open(os.dup(fd), "wb") as target:
            undo.callback(os.close, fd)
            while chunk := source.read(1 << 20):
                total += len(chunk)
                if total > max_bytes:
                    raise TooLarge
                look(chunk)
                target.write(chunk)
            undo.pop_all()
        return cls(fd)

    def open(self) -> int:
        """Return a new descriptor that reads from the beginning."""
        return os.open(f"/proc/self/fd/{self._fd}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Free the memory."""
        os.close(self._fd)


class BuildStore:
    """A folder of builds. Several runners may use it at once."""

    def __init__(
        self, folder: Path, *, build_bytes: int = MAX_BUILD_BYTES, store_bytes: int = MAX_STORE_BYTES
    ) -> None:
        self._folder = folder
        self._build_bytes = build_bytes
        self._store_bytes = store_bytes

    def take(self, key: str) -> Build | None:
        """Return a build, None if there is none. A damaged build is removed."""
        path = self._folder / f"{key}{SUFFIX}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with open(fd, "rb") as file:
            build = self._checked(file)
            if build is None:
                path.unlink(missing_ok=True)
            else:
                # The builds unused for longest are removed first when room is needed.
                os.utime(file.fileno())
        return build

    def put(self, key: str, build: Build) -> None:
        """Store a build. If that fails, perhaps for lack of space, the next job builds again."""
        new: Path | None = None
        try:
            with tempfile.NamedTemporaryFile(prefix=UNFINISHED, dir=self._folder, delete=False) as target:
                new = Path(target.name)
                fcntl.flock(target, fcntl.LOCK_EX)
                write_entry(target, build)
                os.replace(new, self._folder / f"{key}{SUFFIX}")
            self._make_room()
        except OSError as error:
            sys.stderr.write(f"{self._folder}: a build cannot be kept: {error}\n")
            if new is not None:
                new.unlink(missing_ok=True)

    def _checked(self, file: IO[bytes]) -> Build | None:
        said = file.read(FIRST_LINE_BYTES)
        digest = hashlib.sha256()
        try:
            build = Build.read(file, max_bytes=self._build_bytes, look=digest.update)
        except (TooLarge, OSError):
            return None
        if said != digest.hexdigest().encode() + b"\n":
            build.close()
            return None
        return build

    def _make_room(self) -> None:
        """Remove the builds unused for longest, and unfinished files of killed runners."""
        entries = sorted((path.stat().st_mtime_ns, path) for path in self._folder.glob(f"*{SUFFIX}"))
        sizes = {path: path.stat().st_size for _, path in entries}
        too_much = sum(sizes.values()) - self._store_bytes
        for path, size in sizes.items():
            if too_much > 0:
                path.unlink(missing_ok=True)
                too_much -= size
        for path in self._folder.glob(f"{UNFINISHED}*"):
            with contextlib.suppress(FileNotFoundError):
                remove_unless_locked(path)


def write_entry(target: IO[bytes], build: Build) -> None:
    """Write a build in the form of an entry."""
    digest = hashlib.sha256()
    target.write(b" " * FIRST_LINE_BYTES)
    with open(build.open(), "rb") as source:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            target.write(chunk)
    target.seek(0)
    target.write(digest.hexdigest().encode() + b"\n")
    target.flush()


def remove_unless_locked(path: Path) -> None:
    """Remove a file unless another process is writing it."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        path.unlink(missing_ok=True)


def from_environment(environ: Mapping[str, str]) -> BuildStore | None:
    """Return the machine's store, None if none is named or others could write to it."""
    named = environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        sys.stderr.write(f"{folder}: no builds are kept here: {error}\n")
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if not ours:
        sys.stderr.write(f"{folder}: no builds are kept here: other users can write to it\n")
    return BuildStore(folder) if ours else None
