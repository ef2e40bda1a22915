"""Errors as JSON: one shape, stable codes.

``{"error": {"code": ..., "message": ..., "request_id": ...}}`` and, where there is more to say,
``next`` (what to do), ``problems`` (of a task), ``details`` (of a request), ``retry_after_s``.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from kernelcup import errors
from kernelcup.http.middleware import HEADERS

STATUS: tuple[tuple[type[errors.KernelCupError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.SignInNeeded, 401),
    (errors.Forbidden, 403),
    (errors.LeaderboardClosed, 403),
    (errors.Paused, 503),
    (errors.RateLimited, 429),
    (errors.FileTooLarge, 413),
    (errors.UserError, 400),
    (errors.StorageUnavailable, 503),
)
CODES = {
    401: "sign_in_needed",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "file_too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
}
RETRY_STORAGE_S = 2

logger = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Answer errors of every kind in our shape."""
    app.add_exception_handler(errors.KernelCupError, on_kernelcup_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_bug)


def status_of(error: errors.KernelCupError) -> int:
    """Return the HTTP status of a deliberate error."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def code_of(error: errors.KernelCupError) -> str:
    """Return the stable code of a deliberate error."""
    if isinstance(error, errors.UserError):
        return error.code
    return "storage_unavailable" if isinstance(error, errors.StorageUnavailable) else "server_error"


def body_of(error: errors.KernelCupError) -> dict[str, Any]:
    """Return what is told of a deliberate error."""
    if not isinstance(error, errors.UserError):
        # Its text may name hosts, files and settings of the server.
        told = "The database does not answer; nothing was stored. Try again in a moment."
        other = "The server cannot do this now; whoever runs it finds the cause in its log."
        text = told if isinstance(error, errors.StorageUnavailable) else other
        return {"code": code_of(error), "message": text}
    body: dict[str, Any] = {"code": error.code, "message": str(error)}
    if notes := getattr(error, "__notes__", []):
        body["next"] = list(notes)
    if isinstance(error, errors.InvalidTask):
        names = ("file", "line", "column", "key", "text")
        body["problems"] = [{name: getattr(each, name) for name in names} for each in error.problems]
    if isinstance(error, errors.DeviceNeeded):
        body |= {"leaderboard": error.leaderboard, "devices": list(error.devices)}
    if isinstance(error, errors.RateLimited):
        body["retry_after_s"] = error.retry_after_s
    return body


def answer(
    request: Request, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return the one shape."""
    told = {**body, "request_id": getattr(request.state, "request_id", "")}
    return JSONResponse({"error": told}, status_code=status, headers=headers)


async def on_kernelcup_error(request: Request, error: Exception) -> JSONResponse:
    """Answer a deliberate error."""
    assert isinstance(error, errors.KernelCupError)
    headers = {}
    if isinstance(error, errors.RateLimited):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, errors.StorageUnavailable):
        headers["Retry-After"] = str(RETRY_STORAGE_S)
    if isinstance(error, errors.SignInNeeded):
        headers["WWW-Authenticate"] = "Bearer"
    if not isinstance(error, errors.UserError):
        logger.error("request failed: %s", error)
    return answer(request, status_of(error), body_of(error), headers)


async def on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that does not fit its form: name every place, repeat no value."""
    assert isinstance(error, RequestValidationError)
    details = [
        {"where": ".".join(str(part) for part in each["loc"]), "text": each["msg"]} for each in error.errors()
    ]
    text = "; ".join(f"{each['where']}: {each['text']}" for each in details)
    return answer(request, 422, {"code": "invalid_request", "message": text, "details": details})


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer what the framework refuses."""
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "invalid_request" if error.status_code < 500 else "server_error")
    headers = dict(error.headers or {})
    return answer(request, error.status_code, {"code": code, "message": str(error.detail)}, headers)


async def on_bug(request: Request, error: Exception) -> JSONResponse:
    """Answer what should not happen: the cause is in the log under the request's id."""
    logger.exception("this should not happen", exc_info=error)
    text = "This is a bug in KernelCup, not yours; please report it with the request's id."
    # Nothing of ours is around this answer that would add them.
    headers = {**HEADERS, "Cache-Control": "no-store", "X-Request-Id": request.state.request_id}
    return answer(request, 500, {"code": "bug", "message": text}, headers)
