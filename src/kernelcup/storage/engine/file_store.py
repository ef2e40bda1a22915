"""Files beside the database: what is too large for a row, by the hash of its content."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tempfile
import zlib
from datetime import datetime
from pathlib import Path

LARGEST_BYTES = 512 << 20
"""Of one file, unpacked."""
MOST_BYTES = 20 << 30
"""Of all files, packed: the oldest go first."""
_CHUNK = 1 << 20


class FileStore:
    """Keeps gzip files below a folder. Several processes may use it at once.

    Args:
        folder: Created with the first file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, packed: bytes) -> str | None:
        """Store a gzip file and return the SHA-256 of its content; None if it cannot be unpacked."""
        digest = _digest(packed)
        if digest is None:
            return None
        path = self._path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with open(handle, "wb") as file:
            file.write(packed)
        os.replace(name, path)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return the content with this hash, None if it was deleted."""
        if not re.fullmatch("[0-9a-f]{64}", digest):
            return None
        try:
            return gzip.decompress(self._path(digest).read_bytes())
        except (OSError, EOFError, zlib.error):
            return None

    def prune(self, before: datetime) -> int:
        """Delete files that were stored before a moment, and the oldest beyond :data:`MOST_BYTES`; return how many."""
        found = []
        for path in self._folder.glob("??/*"):
            try:
                found.append((path.stat().st_mtime, path.stat().st_size, path))
            except FileNotFoundError:
                continue
        total, removed = 0, 0
        for stored, size, path in sorted(found, reverse=True):
            total += size
            if stored < before.timestamp() or total > MOST_BYTES:
                path.unlink(missing_ok=True)
                removed += 1
        return removed

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / f"{digest}.gz"


def _digest(packed: bytes) -> str | None:
    """Return the hash of a gzip file's content, None if it is damaged or too large."""
    found, total = hashlib.sha256(), 0
    reader = zlib.decompressobj(wbits=31)
    rest = packed
    try:
        while rest and not reader.eof:
            part = reader.decompress(rest, _CHUNK)
            found.update(part)
            total += len(part)
            if total > LARGEST_BYTES:
                return None
            rest = reader.unconsumed_tail
    except zlib.error:
        return None
    return found.hexdigest() if reader.eof else None
