"""Unpack an uploaded zip into memory, and refuse entries that no task needs."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections import Counter
from pathlib import Path

from kernelcup.errors import InvalidTask, Problem
from kernelcup.tasks.manifest.problems import raise_problems, single_problem
from kernelcup.tasks.manifest.size_limits import (
    MAX_FILE_BYTES,
    MAX_TASK_BYTES,
    MAX_ZIP_BYTES,
    MAX_ZIP_ENTRIES,
    MAX_ZIP_RATIO,
    MIB,
    RATIO_FREE_BYTES,
)
from kernelcup.tasks.sources.trees import ArchiveTree, Unreadable, reject_odd_target

# All errors that zipfile raises for broken or hostile bytes.
ZIP_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
CHUNK = 1 << 16
ENCRYPTED = 0x1


def read_archive(path: Path) -> ArchiveTree:
    """Unpack the zip at ``path``. Raise :class:`InvalidTask` with all its problems."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_ZIP_BYTES + 1)
    except OSError as error:
        raise single_problem(path.name, f"cannot be read: {error.strerror or error}") from error
    return unpack(path.name, content)


class TooMuch(Exception):
    """It unpacks to more than is allowed."""


def unpack(name: str, content: bytes) -> ArchiveTree:
    """Unpack a task's zip; ``name`` is its name in problem lines."""
    try:
        return unpack_bounded(name, content, MAX_TASK_BYTES)
    except TooMuch as error:
        raise single_problem(name, f"unpacks to more than {MAX_TASK_BYTES // MIB} MiB") from error


def unpack_bounded(name: str, content: bytes, most_bytes: int) -> ArchiveTree:
    """Unpack a zip. Raise ``InvalidTask``, or :class:`TooMuch` for more than ``most_bytes`` unpacked."""
    if len(content) > MAX_ZIP_BYTES:
        raise single_problem(name, f"is larger than {MAX_ZIP_BYTES // MIB} MiB")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _refuse_entries(name, entries, most_bytes)
            return ArchiveTree(name, _read_all(name, archive, entries, most_bytes))
    except (InvalidTask, TooMuch):
        raise
    except ZIP_FAILURES as error:
        raise single_problem(name, f"is not a zip that can be read: {error}") from error


def _refuse_entries(name: str, entries: list[zipfile.ZipInfo], most_bytes: int) -> None:
    """Check the zip's directory before any byte is unpacked."""
    if len(entries) > MAX_ZIP_ENTRIES:
        raise single_problem(name, f"has {len(entries)} entries; at most {MAX_ZIP_ENTRIES} are allowed")
    if sum(entry.file_size for entry in entries) > most_bytes:
        raise TooMuch
    problems = [
        Problem(file=f"{name}/{entry.orig_filename}", text=text)
        for entry in entries
        if (text := _fault(entry))
    ]
    problems += [
        Problem(file=f"{name}/{double}", text="is in the archive twice")
        for double, times in Counter(entry.filename.rstrip("/") for entry in entries).items()
        if times > 1
    ]
    raise_problems(problems)


def _fault(entry: zipfile.ZipInfo) -> str | None:
    try:
        reject_odd_target(entry.orig_filename.removesuffix("/"))
    except Unreadable as error:
        return f"the name {error}"
    if entry.flag_bits & ENCRYPTED:
        return "is encrypted; only plain zips are allowed"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "is a link; only files and folders are allowed"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a special file; only files and folders are allowed"
    if entry.compress_type not in METHODS:
        return "is packed with an unusual method; only stored and deflated entries are allowed"
    return _size_fault(entry.file_size, entry.compress_size)


def _size_fault(size: int, compressed: int) -> str | None:
    if size > RATIO_FREE_BYTES and size > MAX_ZIP_RATIO * compressed:
        return f"unpacks to more than {MAX_ZIP_RATIO} times its size; that is a zip bomb"
    if size > MAX_FILE_BYTES:
        return f"is larger than {MAX_FILE_BYTES // MIB} MiB"
    return None


def _read_all(
    name: str, archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], most_bytes: int
) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    for entry in entries:
        if entry.is_dir():
            continue
        files[entry.filename] = content = _read_entry(name, archive, entry)
        total += len(content)
        if total > most_bytes:
            raise TooMuch
    return files


def _read_entry(name: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Count bytes while unpacking, since the sizes in the directory may be false."""
    content = bytearray()
    with archive.open(entry) as file:
        while chunk := file.read(CHUNK):
            content += chunk
            if fault := _size_fault(len(content), entry.compress_size):
                raise single_problem(f"{name}/{entry.filename}", fault)
    return bytes(content)
