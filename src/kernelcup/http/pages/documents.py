"""The documentation at ``/docs``, and the page of the API at ``/docs/api``.

A checkout in which ``make docs`` has built nothing shows its Markdown files, without search and navigation.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.errors import NotFound
from kernelcup.http.dependencies import PlatformDep
from kernelcup.http.pages.assets import TEXT
from kernelcup.http.pages.rendering import SECURITY, page_of, render
from kernelcup.http.pages.texts import document
from kernelcup.http.route import LaterRoute

HOME = "/docs/index.html"
API_SECURITY = SECURITY | {
    "Content-Security-Policy": SECURITY["Content-Security-Policy"].replace(
        "img-src 'self'", "img-src 'self' data:"
    )
}
"""Pictures of the style sheet are in its text."""
_INLINE = re.compile(r"<(script|style)(?![^>]*\bsrc=)[^>]*>(.*?)</\1>", re.DOTALL)

router = APIRouter(route_class=LaterRoute)


@router.api_route("/docs", methods=["GET", "HEAD"])
def show_home() -> Response:
    """Go to the first page of the documentation."""
    return RedirectResponse(HOME, 307)


@router.api_route("/docs/api", methods=["GET", "HEAD"])
def show_api(request: Request) -> Response:
    """Show the API in a form in which it can be tried."""
    return render(request, "docs_api.html", security=API_SECURITY)


@router.api_route("/docs/{path:path}", methods=["GET", "HEAD"])
def show_document(path: str, request: Request, platform: PlatformDep) -> Response:
    """Send a file of the built documentation, or a page made of its text."""
    folder = platform.documents
    texts = folder.with_name("docs")
    is_built = (folder / "index.html").is_file()
    file = _file_below(folder if is_built else texts, path)
    if file is None and not is_built and path.startswith("deploy/"):  # where `make docs` puts them too
        file = _file_below(texts.with_name("deploy"), path.removeprefix("deploy/"))
    text = _file_below(texts, path.removesuffix("html") + "md") if file is None else None
    if text is not None:
        page = document(text.read_text(encoding="utf-8").replace("](../../deploy/", "](../deploy/"))
        return render(request, "docs_page.html", page=page, security=API_SECURITY)
    if file is None:
        raise NotFound(f"The documentation has no page {path[:200]!r}.")
    body, kind, security = _document(file, file.stat().st_mtime_ns)
    return page_of(request, body, headers={"Cache-Control": "no-cache"}, media_type=kind, security=security)


def _file_below(folder: Path, path: str) -> Path | None:
    """Return a file of a folder, None if there is none of that name."""
    try:
        file = (folder / path).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except OSError:  # the name is too long for a file
        return None


@lru_cache(maxsize=256)
def _document(file: Path, _changed_ns: int) -> tuple[bytes, str, dict[str, str]]:
    """Return a file with its type and the policy under which its own inline scripts run, and no others."""
    body = file.read_bytes()
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    if kind.startswith(TEXT):
        kind = f"{kind}; charset=utf-8"
    if not kind.startswith("text/html"):
        return body, kind, SECURITY
    # Browsers read line ends as \n before they take the hash.
    text = body.decode().replace("\r\n", "\n")
    policy = API_SECURITY["Content-Security-Policy"]
    for tag in ("script", "style"):
        found = sorted({_hash_of(each[2]) for each in _INLINE.finditer(text) if each[1] == tag})
        policy = policy.replace(f"{tag}-src 'self'", " ".join((f"{tag}-src 'self'", *found)))
    return body, kind, SECURITY | {"Content-Security-Policy": policy}


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
