"""Errors in the only shape that the existing client understands: ``{"detail": "text"}``.

Exception handlers apply to the whole application, so these routes answer errors themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import Receive, Scope, Send

from kernelcup.clean_text import LONGEST_MESSAGE, cut
from kernelcup.errors import KernelCupError, Overloaded, is_shortage
from kernelcup.http.auth import SAFE_METHODS
from kernelcup.http.errors import RETRY_SHORT_S, body_of, code_of, headers_of, invalid_text, status_of
from kernelcup.http.middleware import Refused
from kernelcup.http.route import ViewRoute
from kernelcup_kernelbot.popcorn.auth import needed_by

BUG = "This is a bug in KernelCup, not yours; please report it with the request's id"

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PopcornRoute(ViewRoute):
    """A route whose errors are ``{"detail": "text"}``, whatever kind they are."""

    def get_route_handler(self) -> Handler:
        """Return the handler, wrapped to answer errors."""
        handler = super().get_route_handler()
        know = needed_by(self.dependant)

        async def answer(request: Request) -> Response:
            try:
                if request.method in SAFE_METHODS:
                    return await self.read(request, handler)
                if know is None:
                    return await handler(request)
                await run_in_threadpool(know, request)
                return await self.change(request, handler)
            except Exception as error:  # every kind of error gets the same shape
                return as_response(request, error)

        return answer

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; a wrong method is answered in our shape too."""
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
    if is_shortage(error):
        error = Overloaded("The server is short of files or memory now.", retry_after_s=RETRY_SHORT_S)
        status, text = told(error)
    if isinstance(error, KernelCupError):
        headers.update(headers_of(error))
        if status == 503:
            request.app.state.metrics.unavailable(code_of(error))
    if status >= 500:
        request_id = getattr(request.state, "request_id", "")
        text = f"{text.rstrip('.')} ({request_id})." if request_id else text
        logger.error("request failed: %s", error, exc_info=None if _is_known(error) else error)
    return JSONResponse({"detail": text}, status_code=status, headers=headers)


def told(error: Exception) -> tuple[int, str]:
    """Return an error's status and text, including the next step."""
    if isinstance(error, KernelCupError):
        body = body_of(error)
        return status_of(error), " ".join([str(body["message"]), *body.get("next", [])])
    if isinstance(error, RequestValidationError):
        return 422, invalid_text(error)
    # The framework reads the body, and reports our refusal as an unreadable body.
    refusal = error if isinstance(error, Refused) else error.__cause__
    if isinstance(refusal, Refused):
        return refusal.status, str(refusal)
    if isinstance(error, StarletteHTTPException):
        return error.status_code, cut(str(error.detail), LONGEST_MESSAGE)
    return 500, BUG


def _is_known(error: Exception) -> bool:
    return isinstance(error, KernelCupError | HTTPException)
