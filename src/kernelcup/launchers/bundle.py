"""Ship the harness: its identity, and one file that contains it."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import kernelcup_harness
from kernelcup.errors import LaunchError
from kernelcup.launchers.remote_job import SOURCES

PACKAGE = Path(kernelcup_harness.__file__).parent

# The earliest time that a zip can store, so that the bundle does not depend on when it was made.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def harness_files(package: Path = PACKAGE) -> list[Path]:
    """Return the harness's source files, sorted by their path inside the package."""
    files = (path for path in package.rglob("*") if path.suffix in SOURCES)
    return sorted(files, key=lambda path: path.relative_to(package).as_posix())


def harness_hash(package: Path = PACKAGE) -> str:
    """Return the SHA-256 (hex) over names and contents of the harness's source files.

    It is computed again when a file has changed: each job would wait for reading all of them, 17 ms on slow cores.
    """
    seen = sorted(_stats(str(package)))
    known = _HASHES.get(package)
    if known is None or known[0] != seen:
        known = _HASHES[package] = (seen, _hash(package))
    return known[1]


Stat = tuple[str, int, int, int]

_HASHES: dict[Path, tuple[list[Stat], str]] = {}


def _stats(folder: str) -> Iterator[Stat]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _stats(entry.path)
        elif os.path.splitext(entry.name)[1] in SOURCES:
            found = entry.stat()
            yield entry.path, found.st_ino, found.st_ctime_ns, found.st_size


def _hash(package: Path) -> str:
    digest = hashlib.sha256()
    for path in harness_files(package):
        name, content = path.relative_to(package).as_posix().encode(), path.read_bytes()
        digest.update(b"%d %s %d\n" % (len(name), name, len(content)))
        digest.update(content)
    return digest.hexdigest()


def write_bundle(target: Path, package: Path = PACKAGE) -> str:
    """Write the harness as one zip, equal byte for byte for equal sources. Return the harness's hash.

    Python runs it with the zip on ``PYTHONPATH``: ``python -m kernelcup_harness``.
    """
    with zipfile.ZipFile(target, "w") as bundle:
        for path in harness_files(package):
            name = f"{package.name}/{path.relative_to(package).as_posix()}"
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.external_attr = 0o644 << 16
            bundle.writestr(entry, path.read_bytes(), compress_type=zipfile.ZIP_STORED)
    return harness_hash(package)


def kept_bundle(folder: Path) -> Path:
    """Return the zip of the current harness in a folder, made if absent; zips of earlier harnesses stay there."""
    target = folder / f"{harness_hash()}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        write_bundle(fresh)
        fresh.replace(target)
    return target


def bundle_of(folder: Path, wanted: str) -> Path:
    """Return the zip of a harness in a folder. Raise ``LaunchError`` if only another one is known."""
    found = kept_bundle(folder) if wanted == harness_hash() else folder / f"{wanted}.zip"
    if not found.is_file():
        raise LaunchError(f"no harness with the hash {wanted[:12]} is kept here")
    return found
