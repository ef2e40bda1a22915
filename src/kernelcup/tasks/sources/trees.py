"""Trees of a task's files: a folder on disk or an archive in memory.

A tree has a root; paths are relative to it, with ``/``, and nothing outside it can be named or read.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Protocol

from annotated_types import Predicate

from kernelcup.tasks.manifest.size_limits import MAX_FILE_BYTES, MIB


class Unreadable(Exception):
    """A file cannot be used; the text completes "`x` ..."."""


class Absent(Unreadable):
    """The file does not exist."""


class Tree(Protocol):
    """Files under a root."""

    def read(self, path: str) -> bytes:
        """Return a file's content. Raise :class:`Unreadable`."""

    def label(self, path: str) -> str:
        """Return the file's name in problem lines."""


@dataclass(frozen=True, slots=True)
class FolderTree:
    """The files under ``root``; labels are relative to the caller, for whom ``base`` is ``shown``."""

    root: Path
    base: str
    shown: Path

    def read(self, path: str) -> bytes:
        """Return a file's content. Raise :class:`Unreadable`, also for links and special files."""
        place = self.root
        try:
            for part in PurePosixPath(path).parts:
                place = place / part
                if place.is_symlink():
                    raise Unreadable("is or goes through a link, and links are not followed")
            return _limited(_read_regular(place))
        except OSError as error:
            raise _unreadable(error) from error

    def label(self, path: str) -> str:
        """Return the file's path relative to the caller."""
        return str(self.shown / posixpath.relpath(path, self.base or "."))


@dataclass(frozen=True, slots=True)
class ArchiveTree:
    """Files in memory, from an archive or an upload."""

    name: str
    """The archive's name in problem lines; empty if the paths are enough."""
    files: Mapping[str, bytes]

    def read(self, path: str) -> bytes:
        """Return a file's content. Raise :class:`Unreadable`."""
        if path not in self.files:
            raise Absent("is not in the archive" if self.name else "is not among the files")
        return _limited(self.files[path])

    def label(self, path: str) -> str:
        """Return the archive's name and the path in it."""
        return posixpath.join(self.name, path)


def locate(base: str, source: str) -> str:
    """Resolve ``source`` in folder ``base`` to a path from the root. Raise :class:`Unreadable`."""
    reject_odd_name(source)
    path = posixpath.normpath(posixpath.join(base, source))
    if path == ".." or path.startswith("../"):
        raise Unreadable("leads out of the problem set's root; only files below it can be used")
    return path


def reject_odd_name(name: str) -> None:
    """Raise :class:`Unreadable` for a name that is absolute or ambiguous between operating systems."""
    if name.startswith("/") or (len(name) > 1 and name[0].isalpha() and name[1] == ":"):
        raise Unreadable("is absolute; only relative paths with `/` are allowed")
    if "\\" in name:
        raise Unreadable("has a backslash; only relative paths with `/` are allowed")
    if not name.isprintable() or len(name) > 255:
        raise Unreadable("has characters that do not print, or more than 255 of them")


def reject_odd_target(name: str) -> None:
    """Raise :class:`Unreadable` unless ``name`` is a plain relative path, for example ``include/x.cuh``."""
    reject_odd_name(name)
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise Unreadable("is not plain; `.`, `..` and empty parts are not allowed")


def is_plain(name: str) -> bool:
    """Return whether a name leads nowhere but below the folder that it is given."""
    try:
        reject_odd_target(name)
    except Unreadable:
        return False
    return True


FileName = Annotated[str, Predicate(is_plain)]
"""A name that becomes a path where an answer is read; a reader refuses any other."""


def _read_regular(place: Path) -> bytes:
    # Nonblocking, because a named pipe would block for ever.
    handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unreadable("is not a regular file")
    with os.fdopen(handle, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _unreadable(error: OSError) -> Unreadable:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Absent("does not exist")
    return Unreadable(f"cannot be read: {error.strerror or error}")


def _limited(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"is larger than {MAX_FILE_BYTES // MIB} MiB")
    return content
