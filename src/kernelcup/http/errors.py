"""Errors as JSON, or as pages for browsers: one shape, stable codes.

``{"error": {"code": ..., "message": ..., "request_id": ...}}`` and, where they apply,
``next`` (what to do), ``problems`` (of a task), ``details`` (of a request), ``retry_after_s``.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kernelcup import errors
from kernelcup.clean_text import LONGEST_MESSAGE, MOST_FAULTS, clean_json, cut, more
from kernelcup.http.dependencies import get_actor
from kernelcup.http.middleware import HEADERS
from kernelcup.http.pages import wording
from kernelcup.http.pages.rendering import render
from kernelcup.next_steps import NEXT_STEPS
from kernelcup_harness.protocol.first_errors import advice

STATUS: tuple[tuple[type[errors.KernelCupError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.SignInNeeded, 401),
    (errors.Forbidden, 403),
    (errors.LeaderboardClosed, 403),
    (errors.LeaderboardOpen, 409),
    (errors.Paused, 503),
    (errors.Overloaded, 503),
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
RETRY_SHORT_S = 10
LONGEST_FAULT = LONGEST_MESSAGE // MOST_FAULTS
LONGEST_PLACE = 100

OURS = re.compile(r"^(?:body|query|path)\.(?:settings\.)?(?=.)")
"""Where a value stands in a request, which people do not see; ``details`` has it for programs."""

logger = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Register handlers that answer every kind of error in our shape."""
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
    """Return the response body for a deliberate error."""
    if not isinstance(error, errors.UserError):
        # Its text may name hosts, files and settings of the server.
        told = (
            "The database or the store of files does not answer; nothing was stored. Try again in a moment."
        )
        other = "The server cannot do this now; its operator finds the cause in the log."
        text = told if isinstance(error, errors.StorageUnavailable) else other
        return {"code": code_of(error), "message": text}
    body: dict[str, Any] = {"code": error.code, "message": str(error)}
    if notes := getattr(error, "__notes__", []) or list(filter(None, [advice(str(error))])):
        body["next"] = list(notes)
    if isinstance(error, errors.InvalidTask):
        body["problems"] = [
            asdict(each) | {name: cut(getattr(each, name), LONGEST_FAULT) for name in ("file", "key", "text")}
            for each in error.problems[:MOST_FAULTS]
        ]
    if isinstance(error, errors.DeviceNeeded):
        body |= {"leaderboard": error.leaderboard, "devices": list(error.devices)}
    if isinstance(error, errors.RateLimited):
        body["retry_after_s"] = error.retry_after_s
    return body


def answer(
    request: Request, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """Return an error response, for browsers as a page."""
    if status == 503:
        request.app.state.metrics.unavailable(body["code"])
    body = {**body, "request_id": getattr(request.state, "request_id", "")}
    if wants_page(request):
        # The general next steps are for programs: they speak of headers and commands.
        return error_page(request, status, clean_json(body), headers)
    told = {**next_step(body["code"]), **body}
    return JSONResponse({"error": clean_json(told)}, status_code=status, headers=headers)


def next_step(code: str) -> dict[str, list[str]]:
    """Return the default next step for an error without its own."""
    return {"next": [NEXT_STEPS[code]]} if code in NEXT_STEPS else {}


def headers_of(error: errors.KernelCupError) -> dict[str, str]:
    """Return a deliberate error's headers for programs: how to sign in, when to retry."""
    if isinstance(error, errors.RateLimited):
        return {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, errors.StorageUnavailable):
        return {"Retry-After": str(RETRY_STORAGE_S)}
    return {"WWW-Authenticate": "Bearer"} if isinstance(error, errors.SignInNeeded) else {}


async def on_kernelcup_error(request: Request, error: Exception) -> Response:
    """Answer a deliberate error."""
    assert isinstance(error, errors.KernelCupError)
    headers = headers_of(error)
    if isinstance(error, errors.UserError):
        await _know_reader(request)
    else:
        logger.error("request failed: %s", error)
    return answer(request, status_of(error), body_of(error), headers)


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """Answer a request that does not match its schema: name every place, repeat no values."""
    assert isinstance(error, RequestValidationError)
    details = [{"where": where, "text": text} for where, text in _places(error)]
    return answer(
        request, 422, {"code": "invalid_request", "message": invalid_text(error), "details": details}
    )


def _unreadable(cause: BaseException | None) -> dict[str, Any] | None:
    """Return why a body could not be read as JSON; the framework does not give the reason."""
    if isinstance(cause, UnicodeDecodeError):
        return {"type": "encoding", "loc": ("body", cause.start), "msg": "The body is not UTF-8 text."}
    if isinstance(cause, RecursionError):
        return {"type": "depth", "loc": ("body",), "msg": "The JSON is nested too deeply."}
    return None


def invalid_text(error: RequestValidationError) -> str:
    """Return the validation errors as one line: the first places, and the number of others."""
    # A whole sentence names its subject; other messages get the place, in words of the reader.
    shown = [
        text if text.endswith(".") else f"{OURS.sub('', where)}: {text}" for where, text in _places(error)
    ]
    shown = [each.rstrip(".") if len(shown) > 1 else each for each in shown]
    return "; ".join([*shown, *more(len(error.errors()) - MOST_FAULTS)])


def _places(error: RequestValidationError) -> list[tuple[str, str]]:
    """Return the first invalid places, cut: keys may be arbitrarily long."""
    return [
        (
            cut(".".join(map(str, each["loc"])), LONGEST_PLACE),
            cut(each["msg"].removeprefix("Value error, "), LONGEST_FAULT),
        )
        for each in error.errors()[:MOST_FAULTS]
    ]


async def _know_reader(request: Request) -> None:
    """Find out who reads an error page that came before the reader was asked for, such as of an unknown address."""
    if wants_page(request):
        with suppress(errors.KernelCupError):
            await get_actor(request)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer a request that the framework refuses."""
    assert isinstance(error, HTTPException)
    if (unreadable := _unreadable(error.__cause__)) is not None:
        return await on_invalid_request(request, RequestValidationError([unreadable]))
    code = CODES.get(error.status_code, "invalid_request" if error.status_code < 500 else "server_error")
    headers = dict(error.headers or {})
    await _know_reader(request)
    body = {"code": code, "message": cut(str(error.detail), LONGEST_MESSAGE)}
    return answer(request, error.status_code, body, headers)


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer an unexpected error: the cause is in the log under the request's id."""
    if errors.is_shortage(error):
        logger.error("request failed: %s", error)
        short = errors.Overloaded("The server is short of files or memory now.", retry_after_s=RETRY_SHORT_S)
        return answer(request, 503, body_of(short), {**_alone(request), **headers_of(short)})
    logger.exception("this should not happen", exc_info=error)
    text = "This is a bug in KernelCup, not yours; please report it with the request's id."
    return answer(request, 500, {"code": "bug", "message": text}, _alone(request))


def _alone(request: Request) -> dict[str, str]:
    """Return the headers that our middleware adds to other answers; it does not wrap this one."""
    return {**HEADERS, "Cache-Control": "no-store", "X-Request-Id": request.state.request_id}


FOR_PROGRAMS = "/api/"


def wants_page(request: Request) -> bool:
    """Return whether the request comes from a browser, not from a program."""
    accepts = "text/html" in request.headers.get("accept", "")
    return accepts and not request.url.path.startswith(FOR_PROGRAMS)


def error_page(
    request: Request, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """Return a page that says what is wrong and what to do, with the stable code."""
    # Whoever may not see a page is sent back to it after signing in; a form is not sent again.
    query = f"?{request.url.query}" if request.url.query else ""
    back = f"{request.url.path}{query}" if request.method == "GET" else "/"
    return render(
        request,
        "error.html",
        status=status,
        headers={"Cache-Control": "no-store", **(headers or {})},
        title=wording.error_title(status),
        error=body,
        sign_in=f"/auth/login?next={quote(back, safe='/')}" if status == 401 else "",
    )
