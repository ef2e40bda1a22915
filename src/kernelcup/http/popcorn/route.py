"""Errors in the only shape that the existing client understands: ``{"detail": "text"}``.

Handlers of exceptions are for the whole application, so these routes answer errors themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import Receive, Scope, Send

from kernelcup.errors import KernelCupError, RateLimited, SignInNeeded
from kernelcup.http.errors import body_of, status_of
from kernelcup.http.middleware import LARGEST_BODY_BYTES, BodyTooLarge

BUG = "This is a bug in KernelCup, not yours; please report it with the request's id"

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PopcornRoute(APIRoute):
    """A route whose errors are ``{"detail": "text"}``, whatever kind they are."""

    def get_route_handler(self) -> Handler:
        """Return the handler with answers for errors around it."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except Exception as error:  # every kind has to end in the one shape
                return as_response(request, error)

        return answer

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; also of a wrong method in our shape."""
        try:
            await super().handle(scope, receive, send)
        except StarletteHTTPException as error:
            await as_response(Request(scope, receive), error)(scope, receive, send)


def as_response(request: Request, error: Exception) -> Response:
    """Return the answer to an error."""
    status, text = told(error)
    headers: dict[str, str] = {}
    if isinstance(error, StarletteHTTPException):
        headers.update(error.headers or {})
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, SignInNeeded):
        headers["WWW-Authenticate"] = "Bearer"
    if status >= 500:
        request_id = getattr(request.state, "request_id", "")
        text = f"{text.rstrip('.')} ({request_id})." if request_id else text
        logger.error("request failed: %s", error, exc_info=None if _is_known(error) else error)
    return JSONResponse({"detail": text}, status_code=status, headers=headers)


def told(error: Exception) -> tuple[int, str]:
    """Return the status of an error and what is told of it, with what one can do."""
    if isinstance(error, KernelCupError):
        body = body_of(error)
        return status_of(error), " ".join([str(body["message"]), *body.get("next", [])])
    if isinstance(error, RequestValidationError):
        places = [(".".join(str(part) for part in each["loc"]), each["msg"]) for each in error.errors()]
        return 422, "; ".join(f"{where}: {text}" for where, text in places)
    # A body is read inside the framework, which takes our refusal for a body that it cannot read.
    if isinstance(error, BodyTooLarge) or isinstance(error.__cause__, BodyTooLarge):
        return 413, f"The request is too large: {LARGEST_BODY_BYTES:,} bytes are allowed."
    if isinstance(error, StarletteHTTPException):
        return error.status_code, str(error.detail)
    return 500, BUG


def _is_known(error: Exception) -> bool:
    return isinstance(error, KernelCupError | HTTPException)
