"""A small HTTP client for load: raw asyncio, so that it costs less than what it measures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Connection:
    """One kept-alive connection to a server."""

    base: str
    token: str
    _reader: asyncio.StreamReader | None = field(default=None, repr=False)
    _writer: asyncio.StreamWriter | None = field(default=None, repr=False)

    async def request(
        self, method: str, path: str, body: object | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send one request and return its status and JSON. Raise ``OSError`` if the connection fails."""
        was_open = self._writer is not None
        try:
            try:
                return await self._request(method, path, body, headers or {})
            except ConnectionError:
                if not was_open:
                    raise
                self.close()  # servers close connections that were idle; any client tries again then
                return await self._request(method, path, body, headers or {})
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.close()
            raise ConnectionError(str(error)) from error

    async def _request(
        self, method: str, path: str, body: object | None, headers: dict[str, str]
    ) -> tuple[int, Any]:
        reader, writer = await self._open()
        payload = b"" if body is None else json.dumps(body).encode()
        head = _head(method, path, self.token, {**headers, "Content-Length": str(len(payload))})
        writer.write(head + payload)
        await writer.drain()
        status, found = await _read_head(reader)
        content = await reader.readexactly(int(found.get("content-length", "0")))
        if found.get("connection") == "close":
            self.close()
        is_json = found.get("content-type", "").startswith("application/json")
        return status, json.loads(content) if content and is_json else None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            place = urlsplit(self.base)
            self._reader, self._writer = await asyncio.open_connection(place.hostname, place.port)
        return self._reader, self._writer

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def events(base: str, token: str, path: str, *, last_id: int = 0) -> AsyncIterator[tuple[int, str]]:
    """Yield id and kind of each server-sent event until the stream ends."""
    place = urlsplit(base)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(
            _head("GET", path, token, {"Last-Event-ID": str(last_id), "Accept": "text/event-stream"})
        )
        await writer.drain()
        status, _ = await _read_head(reader)
        if status != 200:
            raise ConnectionError(f"status {status}")
        number, kind = 0, ""
        while line := await reader.readline():
            name, _, value = line.decode().strip().partition(": ")
            if name == "id":
                number = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                yield number, kind
    finally:
        writer.close()


def _head(method: str, path: str, token: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: load"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += ["Content-Type: application/json", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    line = await reader.readline()
    if not line:
        raise ConnectionError("the server closed the connection")
    status = int(line.split()[1])
    headers = {}
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return status, headers
