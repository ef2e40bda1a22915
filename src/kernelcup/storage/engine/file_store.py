"""Files beside the database: what is too large for a row, by the hash of its content."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from datetime import datetime

from kernelcup.storage.engine.blobs import Blobs

LARGEST_BYTES = 512 << 20
"""Of one file, unpacked."""
MOST_BYTES = 20 << 30
"""Of all files, packed: the oldest go first."""
_CHUNK = 1 << 20


class FileStore:
    """Keeps gzip files. Several processes may use it at once.

    Args:
        blobs: Where they lie.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def put(self, packed: bytes) -> str | None:
        """Store a gzip file and return the SHA-256 of its content; None if it cannot be unpacked."""
        digest = _digest(packed)
        if digest is None:
            return None
        self._blobs.put(name_of(digest), packed)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return the content with this hash, None if it was deleted."""
        if not re.fullmatch("[0-9a-f]{64}", digest):
            return None
        try:
            packed = self._blobs.get(name_of(digest))
            return None if packed is None else gzip.decompress(packed)
        except (OSError, EOFError, zlib.error):
            return None

    def prune(self, before: datetime) -> int:
        """Delete files that were stored before a moment, and the oldest beyond :data:`MOST_BYTES`; return how many."""
        found = sorted(self._blobs.every(), key=lambda each: each.stored_at, reverse=True)
        total, removed = 0, 0
        for each in found:
            total += each.nbytes
            if each.stored_at < before or total > MOST_BYTES:
                self._blobs.delete(each.name)
                removed += 1
        return removed


def name_of(digest: str) -> str:
    """Return the name of the file with this hash."""
    return f"{digest[:2]}/{digest}.gz"


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
