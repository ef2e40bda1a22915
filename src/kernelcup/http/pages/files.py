"""Answers that are no pages: feeds and pictures, with an `ETag`."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from kernelcup.http.pages.rendering import SECURITY
from kernelcup.http.state import Platform

CHECKED = {"Cache-Control": "no-cache"}
"""Caches ask each time whether it is still so: what a leaderboard shows can be taken back at any moment."""
PRIVATE = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}

PIECE_BYTES = 64 << 10


def file_of(
    request: Request,
    media_type: str,
    make: Callable[[], bytes],
    *,
    facts: object,
    headers: dict[str, str] = CHECKED,
) -> Response:
    """Return a file, or 304 where the client has it already: then it is not made.

    Args:
        media_type: What it is.
        make: Makes it.
        facts: All that decides what it looks like.
        headers: How it may be cached.
    """
    digest = hashlib.sha256(repr((media_type, facts)).encode()).hexdigest()[:24]
    told = headers | SECURITY | {"ETag": f'W/"{digest}"'}
    if told["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=told)
    return Response(make(), media_type=media_type, headers=told)


def in_pieces(body: bytes, *, media_type: str, headers: dict[str, str]) -> Response:
    """Return a large file. A slow reader keeps one piece of it in memory, not a copy of the whole."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), PIECE_BYTES):
            yield body[at : at + PIECE_BYTES]

    told = headers | {"Content-Length": str(len(body))}
    return StreamingResponse(pieces(), media_type=media_type, headers=told)


def absolute(request: Request, *parts: str) -> str:
    """Return the address of a page for readers elsewhere."""
    platform: Platform = request.app.state.platform
    path = "/".join(quote(part, safe="") for part in parts)
    return f"{platform.config.server.public_url}/{path}"
