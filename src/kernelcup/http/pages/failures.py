"""Errors as pages, for browsers; programs get them as JSON."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from kernelcup.http.pages import wording
from kernelcup.http.pages.rendering import render

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
