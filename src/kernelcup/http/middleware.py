"""Middleware around every request: an id, a place, a log line, metrics, a size limit, headers."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelcup.errors import Overloaded, RateLimited
from kernelcup.http.capacity import PLACE, RETRY_S, Place, Room, network_of
from kernelcup.http.metrics import Metrics
from kernelcup.next_steps import NEXT_STEPS

LARGEST_BODY_BYTES = 16 << 20
"""Limit for uploads, above that of a task; submissions have their own, smaller limit."""

LARGEST_JSON_BYTES = 4 << 20
"""The largest submission fits, also with each of its characters escaped."""

UNKNOWN_BODY_BYTES = 64 << 10
"""Limit before authentication: enough for the forms and codes of sign-in."""

BODY_SILENCE_S = 20.0
"""How long to wait for a client that stops in the middle of its request."""

BODY_S = 60.0
"""How long a whole request may take to arrive."""

UNKNOWN_BODY_S = 10.0
"""How long it may take before authentication."""

API = "/api/v1"

HELD = f"{API}/agent/ask"
"""Its answer waits for a job, so the time that it takes says nothing about the server."""
ASKED_OFTEN = (HELD, f"{API}/agent/news")
"""What agents do all the time, which is logged only if it fails."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
}
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

logger = structlog.get_logger(__name__)


class Refused(Exception):
    """A request is not served any further."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


STOPPING = Refused(503, "server_stopping", "The server stops, and may have done this or not.")
GONE = (499, "request_timeout", "The client hung up.")
"""For the log and the counts."""


def allow_body(scope: Scope, *, most_bytes: int = LARGEST_JSON_BYTES, whole_s: float | None = None) -> None:
    """Raise a request's body limits to those of its kind, once its sender is known."""
    if whole_s is not None:
        scope["state"]["body_s"] = whole_s
    kind = dict(scope["headers"]).get(b"content-type", b"")
    is_upload = kind.lower().startswith(b"multipart/form-data")
    scope["state"]["body_limit"] = LARGEST_BODY_BYTES if is_upload else most_bytes
    scope["state"]["is_sender_known"] = True


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
        begun = time.perf_counter()
        status, started = 500, False
        room: Room = scope["app"].state.platform.room
        place = Place(network_of(scope["client"][0]) if scope.get("client") else "unknown")
        PLACE.set(place)
        scope.setdefault("state", {}).update(request_id=request_id, place=place)

        async def listen() -> Message:
            place.leave()  # what comes next may take its time
            return await receive()

        async def tell(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                place.leave()
                status, started = message["status"], True
                _add_headers(scope, message)
                kind = MutableHeaders(scope=message).get("Content-Type", "")
                scope["state"]["is_stream"] = kind.startswith("text/event-stream")
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await place.take(room.checks.get(scope["path"], room.readers))
                await self._app(scope, listen, tell)
            except (RateLimited, asyncio.CancelledError) as error:
                if started:
                    raise
                await self._refuse(scope, tell, _refusal(error, place))
            finally:
                place.leave()
                self._done(scope, status, time.perf_counter() - begun)

    async def _refuse(self, scope: Scope, send: Send, refusal: Refused) -> None:
        if refusal.status == 503:
            self._metrics.unavailable(refusal.code)
        await _refuse(scope, send, refusal)

    def _done(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        self._metrics.request(scope["method"], route, status, None if route == HELD else seconds)
        if route in ASKED_OFTEN and status == 200:
            return
        actor = scope["state"].get("actor")
        # The route's pattern, not the address: addresses may hold secrets, such as a sign-in link.
        logger.info(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            user=actor.name if actor is not None else None,
            client=scope["client"][0] if scope.get("client") else None,
        )


class BodyLimit:
    """Refuses bodies that are too large or too slow, whatever their header says.

    The limit is small until the route has authenticated the sender and calls ``allow_body``.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        silence_s: float = BODY_SILENCE_S,
        whole_s: float = BODY_S,
        unknown_s: float = UNKNOWN_BODY_S,
    ) -> None:
        self._app = app
        self.silence_s, self.whole_s, self.unknown_s = silence_s, whole_s, unknown_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, self)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if body.refusal is not None and not started and message.get("status") != body.refusal.status:
                return  # body parsers turn our refusal into an error of their own
            started = True
            await send(message)

        try:
            await self._app(scope, body.receive, watched)
        except (Refused, ClientDisconnect):
            if started:
                raise
            body.refusal = body.refusal or Refused(*GONE)
        if body.refusal is not None and not started:
            await _refuse(scope, send, body.refusal)


class _Body:
    """The body of one request as it is read."""

    def __init__(self, scope: Scope, receive: Receive, limits: BodyLimit) -> None:
        self.refusal: Refused | None = None
        self._scope = scope
        self._receive = receive
        self._limits = limits
        self._begun: float | None = None
        self._read = 0
        self._whole = False

    async def receive(self) -> Message:
        """Return the next message; after the body, wait without a limit."""
        if self._whole:
            return await self._receive()
        silence_s, left_s = self._limits.silence_s, self._left_s()
        try:
            async with asyncio.timeout(min(silence_s, left_s)):
                message = await self._receive()
        except TimeoutError:
            stalled = f"The request stalled for {silence_s:g} s"
            text = (
                f"{stalled if silence_s < left_s else 'The request took too long to arrive'}. Send it again."
            )
            raise self._refused(408, "request_timeout", text) from None
        self._read += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        limit = self._scope["state"].get("body_limit", UNKNOWN_BODY_BYTES)
        if self._read > limit:
            raise self._refused(
                413, "file_too_large", f"The request is too large: {limit:,} bytes are allowed."
            )
        return message

    def _left_s(self) -> float:
        now = asyncio.get_running_loop().time()
        self._begun = now if self._begun is None else self._begun
        state = self._scope["state"]
        known_s = state.get("body_s", self._limits.whole_s)
        whole_s = known_s if state.get("is_sender_known", False) else self._limits.unknown_s
        return max(self._begun + whole_s - now, 0.0)

    def _refused(self, status: int, code: str, text: str) -> Refused:
        self.refusal = Refused(status, code, text)
        return self.refusal


def _refusal(error: BaseException, place: Place) -> Refused:
    if isinstance(error, RateLimited):  # there was no place
        return Refused(503 if isinstance(error, Overloaded) else 429, error.code, str(error))
    is_gone = place.turn is not None and place.turn.cancelled()
    # The server stops and waits no longer. Without an answer the client would be told 500.
    return Refused(*GONE) if is_gone else STOPPING


def _add_headers(scope: Scope, message: Message) -> None:
    headers = MutableHeaders(scope=message)
    headers["X-Request-Id"] = scope["state"]["request_id"]
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if "/api/" in scope["path"] or "/auth/" in scope["path"]:
        headers.setdefault("Cache-Control", "no-store")


async def _refuse(scope: Scope, send: Send, refusal: Refused) -> None:
    from starlette.responses import JSONResponse

    told = {
        "code": refusal.code,
        "message": str(refusal),
        "next": [NEXT_STEPS[refusal.code]],
        "request_id": scope["state"]["request_id"],
    }

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    # The rest of the body would keep the connection.
    headers = {"Connection": "close"}
    if refusal.status in (429, 503):
        headers["Retry-After"] = str(RETRY_S)
    body = {"error": told, "detail": str(refusal)}  # which the existing client reads
    await JSONResponse(body, status_code=refusal.status, headers=headers)(scope, nothing, send)


def _route(scope: Scope) -> str:
    """Return the pattern of the requested route, ``none`` if there is none."""
    return getattr(scope.get("route"), "path", "none")


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return uuid.uuid4().hex


def quiet_uvicorn() -> None:
    """Turn off uvicorn's request log: its addresses contain secrets."""
    logging.getLogger("uvicorn.access").disabled = True
