"""Files beside the database: what is too large for a row, by the hash of its content."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from kernelcup.clean_text import dump_json
from kernelcup.engine.blobs import Blobs
from kernelcup.errors import StorageUnavailable

LARGEST_BYTES = 512 << 20
"""Of one file, unpacked."""
MOST_BYTES = 20 << 30
"""Of all files, packed: beyond it uploads go first, then the oldest."""
LARGEST_UPLOAD_BYTES = 64 << 20
"""Of one file that a machine uploads, packed."""
LARGEST_IN_ROW_BYTES = 1 << 20
"""Of a report: a larger one lies here, and its row has its hash."""
INCOMING = "incoming/"
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
        packed = self._packed(digest)
        try:
            return None if packed is None else gzip.decompress(packed)
        except (OSError, EOFError, zlib.error):
            return None

    def parts(self, digest: str) -> Iterator[bytes] | None:
        """Return the content with this hash piece by piece, None if it was deleted: a small file may unpack to much."""
        packed = self._packed(digest)
        return None if packed is None else _unpacked(zlib.decompressobj(wbits=31), packed)

    def gz64(self, digest: str) -> str:
        """Return the gzip file whose content has this hash in base64, empty if it is gone or cannot be reached."""
        with suppress(StorageUnavailable):
            return base64.b64encode(self._packed(digest) or b"").decode()
        return ""

    def _packed(self, digest: str) -> bytes | None:
        return self._blobs.get(name_of(digest)) if is_hash(digest) else None

    def delete(self, digest: str) -> None:
        """Delete the content with this hash, if it is there; while it cannot be reached, it stays until it is old."""
        with suppress(StorageUnavailable):
            self._blobs.delete(name_of(digest))

    def upload_url(self, sender: str, digest: str, within: timedelta) -> str | None:
        """Return where a sender may put a gzip file by itself; None if only :meth:`take_in` can."""
        return self._blobs.upload_url(_incoming(sender, digest), within)

    def take_in(self, sender: str, digest: str, packed: bytes) -> None:
        """Store what a sender uploads. Until :meth:`adopt` it is what the sender says it is, and counts as nothing."""
        self._blobs.put(_incoming(sender, digest), packed)

    def adopt(self, sender: str, digest: str) -> bool:
        """Store a file that its sender has uploaded; return False if there is none, or it has another hash.

        A sender can only name what it has uploaded itself: a hash alone shows nobody the content.
        """
        if not is_hash(digest):
            return False
        packed = self._blobs.get(_incoming(sender, digest), most_bytes=LARGEST_UPLOAD_BYTES)
        if packed is None or _digest(packed) != digest:
            return False
        self._blobs.put(name_of(digest), packed)
        return True

    def prune(self, before: datetime, *, uploaded_before: datetime, keep: Collection[str] = ()) -> int:
        """Delete old files, and beyond :data:`MOST_BYTES` uploads, then the oldest; return how many.

        Args:
            before: Files that were stored before this moment.
            uploaded_before: Uploads from before this moment: they have been adopted, or nobody wants them.
            keep: Hashes of files that stay, however old they are.
        """
        kept = {name_of(each) for each in keep}
        # No machine may push out what was stored, however much it uploads.
        found = sorted(
            self._blobs.every(),
            key=lambda each: (not each.name.startswith(INCOMING), each.stored_at),
            reverse=True,
        )
        total, removed = 0, 0
        for each in found:
            total += each.nbytes
            is_old = each.stored_at < (uploaded_before if each.name.startswith(INCOMING) else before)
            if (is_old or total > MOST_BYTES) and each.name not in kept:
                self._blobs.delete(each.name)
                removed += 1
        return removed


def name_of(digest: str) -> str:
    """Return the name of the file with this hash."""
    return f"{digest[:2]}/{digest}.gz"


def is_hash(digest: str) -> bool:
    """Return whether a text has the form of a hash."""
    return re.fullmatch("[0-9a-f]{64}", digest) is not None


def large_json(body: Any) -> bytes | None:
    """Return a value as JSON if it is too large for a row, None if it is not."""
    text = dump_json(body).encode()
    return text if len(text) > LARGEST_IN_ROW_BYTES else None


def _incoming(sender: str, digest: str) -> str:
    return f"{INCOMING}{sender}-{digest}"


def _digest(packed: bytes) -> str | None:
    """Return the hash of a gzip file's content, None if it is damaged or too large."""
    found, total = hashlib.sha256(), 0
    reader = zlib.decompressobj(wbits=31)
    try:
        for part in _unpacked(reader, packed):
            found.update(part)
            total += len(part)
            if total > LARGEST_BYTES:
                return None
    except zlib.error:
        return None
    # What follows its end would not count for the hash, but would be unpacked with it.
    return found.hexdigest() if reader.eof and not reader.unused_data else None


def _unpacked(reader: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    rest = packed
    while rest and not reader.eof:
        yield reader.decompress(rest, _CHUNK)
        rest = reader.unconsumed_tail
