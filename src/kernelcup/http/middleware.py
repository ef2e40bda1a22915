"""What happens around every request: an id, a log line, metrics, a size limit, headers."""

from __future__ import annotations

import logging
import re
import time
import uuid

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelcup.http.metrics import Metrics

LARGEST_BODY_BYTES = 16 << 20
"""More than a task may have; a submission is refused by its own, smaller limit."""

API = "/api/v1"

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
}
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

logger = structlog.get_logger(__name__)


class BodyTooLarge(Exception):
    """The request has more bytes than any may have."""


class Surroundings:
    """The outermost layer. Plain ASGI, so that streams are not held up."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        begun = time.perf_counter()
        status = 500

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "/api/" in scope["path"] or "/auth/" in scope["path"]:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, tell)
            finally:
                self._done(scope, status, time.perf_counter() - begun)

    def _done(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        self._metrics.request(scope["method"], route, status, seconds)
        actor = scope["state"].get("actor")
        # The route's pattern, not the address: addresses may hold secrets, such as a sign-in link.
        logger.info(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            user=actor.name if actor is not None else None,
        )


class BodyLimit:
    """Refuses bodies that are too large, whatever their header says."""

    def __init__(self, app: ASGIApp, *, limit: int = LARGEST_BODY_BYTES) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0
        started = refused = False

        async def counted() -> Message:
            nonlocal read, refused
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._limit:
                refused = True
                raise BodyTooLarge
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            if refused and not started and message.get("status") != 413:
                return  # whatever reads bodies takes our refusal for a broken one, and says so
            started = True
            await send(message)

        try:
            await self._app(scope, counted, watched)
        except BodyTooLarge:
            if started:
                raise
        if refused and not started:
            await _refuse(scope, send, self._limit)


async def _refuse(scope: Scope, send: Send, limit: int) -> None:
    from starlette.responses import JSONResponse

    told = {
        "code": "file_too_large",
        "message": f"A request may have {limit:,} bytes.",
        "request_id": scope["state"]["request_id"],
    }

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    await JSONResponse({"error": told}, status_code=413)(scope, nothing, send)


def _route(scope: Scope) -> str:
    """Return the pattern of the address that was asked for, ``none`` where there is none."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None:
        return "none"
    # FastAPI keeps a router's prefix apart from the routes in it.
    return f"{API}{path}" if scope["path"].startswith(API) and not path.startswith(API) else path


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return uuid.uuid4().hex


def quiet_uvicorn() -> None:
    """Leave the log of requests to us: uvicorn's has addresses with their secrets."""
    logging.getLogger("uvicorn.access").disabled = True
