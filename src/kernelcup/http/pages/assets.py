"""Style sheet, script and pictures: the hash of their content is in their address, so they never expire."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from kernelcup.errors import NotFound
from kernelcup.http.route import LaterRoute

FOREVER = "public, max-age=31536000, immutable"
TEXT = ("text/", "application/javascript", "application/json", "image/svg+xml")

router = APIRouter(route_class=LaterRoute)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asset:
    """A file that pages load."""

    media_type: str
    digest: str
    body: bytes


def asset_url(name: str) -> str:
    """Return the address of a file under ``static/``. Raise ``KeyError`` for one that is not there."""
    return f"/static/{assets()[name].digest}/{name}"


@cache
def assets() -> dict[str, Asset]:
    """Return all files under ``static/`` by their names, with folders as ``folder/name``."""
    found: dict[str, Asset] = {}
    folders = [("", resources.files("kernelcup.http.pages") / "static")]
    while folders:
        before, folder = folders.pop()
        for each in folder.iterdir():
            if each.is_dir():
                folders.append((f"{before}{each.name}/", each))
            else:
                found[f"{before}{each.name}"] = _asset(each.name, each.read_bytes())
    return found


def _asset(name: str, body: bytes) -> Asset:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind == "text/javascript" or kind.startswith("text/"):
        kind = f"{kind}; charset=utf-8"
    return Asset(media_type=kind, digest=hashlib.sha256(body).hexdigest()[:12], body=body)


@cache
def compressed(name: str) -> bytes | None:
    """Return a file as gzip, None where that gains nothing."""
    asset = assets()[name]
    return gzip.compress(asset.body, mtime=0) if asset.media_type.startswith(TEXT) else None


@router.api_route("/static/{digest}/{name:path}", methods=["GET", "HEAD"])
async def show_asset(digest: str, name: str, request: Request) -> Response:
    """Send a file; one of an older page as it is now, for this once."""
    asset = assets().get(name)
    if asset is None:
        raise NotFound(f"There is no file {name!r}.")
    headers = {
        "Cache-Control": FOREVER if digest == asset.digest else "no-cache",
        "Vary": "Accept-Encoding",
    }
    is_packed = "gzip" in request.headers.get("accept-encoding", "")
    if is_packed and (packed := await run_in_threadpool(compressed, name)) is not None:
        headers["Content-Encoding"] = "gzip"
        return Response(packed, media_type=asset.media_type, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
async def show_icon() -> Response:
    """Send the icon to browsers that ask for it at its old place."""
    icon = assets()["icon.svg"]
    return Response(icon.body, media_type=icon.media_type, headers={"Cache-Control": "public, max-age=86400"})
