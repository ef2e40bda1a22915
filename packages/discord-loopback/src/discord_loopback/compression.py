"""The compressed streams of the gateway: one context for each connection, flushed after each message."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from .errors import Refusal


class Compressor(Protocol):
    """Turns one message into one frame."""

    def pack(self, data: bytes) -> bytes:
        """The next piece of the stream."""


class ZlibStream:
    """``compress=zlib-stream``."""

    def __init__(self) -> None:
        self._context = zlib.compressobj()

    def pack(self, data: bytes) -> bytes:
        """The next piece, which ends in 00 00 FF FF."""
        return self._context.compress(data) + self._context.flush(zlib.Z_SYNC_FLUSH)


class ZstdStream:
    """``compress=zstd-stream``, which discord.py asks for as soon as zstandard is installed."""

    def __init__(self) -> None:
        import zstandard

        self._flush_block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        self._context: Any = zstandard.ZstdCompressor().compressobj()

    def pack(self, data: bytes) -> bytes:
        """The next piece, a whole number of blocks."""
        packed: bytes = self._context.compress(data) + self._context.flush(self._flush_block)
        return packed


def compressor(name: str | None) -> Compressor | None:
    """The stream that a connection asked for; None is plain text."""
    match name:
        case None | "":
            return None
        case "zlib-stream":
            return ZlibStream()
        case "zstd-stream":
            return ZstdStream()
    raise Refusal(400, 0, f"unknown compression {name}")
