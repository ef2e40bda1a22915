"""Pages out of templates, feeds and pictures: escaped, compressed, with an `ETag` and strict security headers."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from starlette.responses import Response, StreamingResponse

from kernelcup.domain import Actor, Role
from kernelcup.http.pages import csrf, figures, texts, wording
from kernelcup.http.pages.assets import TEXT, asset_url
from kernelcup.http.pages.submissions import report_words
from kernelcup.http.state import Platform

WORTH_COMPRESSING = 1000

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
CACHING = {"Cache-Control": "private, no-cache", "Vary": "Accept, Accept-Encoding, Cookie"}


@cache
def environment() -> Environment:
    """Return the templates with their filters and functions."""
    made = Environment(
        loader=PackageLoader("kernelcup.http.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"static": asset_url}
    for module in (figures, report_words, texts, wording):
        made.filters |= module.FILTERS
    return made


def render(
    request: Request,
    template: str | Template,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    security: Mapping[str, str] = SECURITY,
    **values: Any,
) -> Response:
    """Return a page; 304 where the browser has it already. An extension brings its template itself.

    Besides ``values`` every template knows ``viewer`` (the signed-in :class:`Actor`, or None), ``path`` (of
    this page, with its query), ``csrf_field`` (a form's hidden input), ``public_url`` (of the service), ``docs``
    (the address of the documentation) and ``without_gpu`` (what the times of devices without a GPU mean, by name).
    """
    text = environment().get_template(template).render(**_surroundings(request), **values)
    return page_of(request, text.encode(), status=status, headers=headers, security=security)


def page_of(
    request: Request,
    body: bytes,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    media_type: str = "text/html; charset=utf-8",
    security: Mapping[str, str] = SECURITY,
) -> Response:
    """Return HTML, or a file beside it, as an answer; 304 where the browser has it already."""
    told = {**CACHING, **(headers or {}), **security}
    if status == 200:
        told["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()[:24]}"'
        if told["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=told)
    shrinks = len(body) > WORTH_COMPRESSING and media_type.startswith(TEXT)
    if shrinks and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 5, mtime=0)
        told["Content-Encoding"] = "gzip"
    return Response(body, status_code=status, headers=told, media_type=media_type)


def viewer_of(request: Request) -> Actor | None:
    """Return who is signed in, None for a reader without an account."""
    actor: Actor | None = getattr(request.state, "actor", None)
    return actor if actor is not None and actor.role is not Role.NOBODY else None


def _surroundings(request: Request) -> dict[str, Any]:
    query = f"?{request.url.query}" if request.url.query else ""
    platform: Platform = request.app.state.platform
    return {
        "public_url": platform.config.server.public_url,
        "docs": platform.config.server.docs,
        "without_gpu": {
            device.name: wording.WITHOUT_GPU[device.backend]
            for device in platform.config.devices
            if device.backend in wording.WITHOUT_GPU
        },
        "viewer": viewer_of(request),
        "path": f"{request.url.path}{query}",
        "csrf_field": csrf.field(request),
    }


def address(path: str, *parts: str, **query: str) -> str:
    """Return an address with parts and a query that may be any texts; empty keys are left out."""
    whole = "/".join((path, *(quote(part, safe="") for part in parts)))
    given = {name: value for name, value in query.items() if value}
    return f"{whole}?{urlencode(given)}" if given else whole


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
