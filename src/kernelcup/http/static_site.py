"""The pages of a service as files that open from the disk, without a server.

Each page is what the service answers to one reader; links between them become relative, and what needs a
server (forms, sign-in, streams, downloads) is left out.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import httpx

from kernelcup.http.app import create_app
from kernelcup.http.state import Platform

MOST_FILES = 5_000
NEEDS_SERVER = re.compile(
    r"/(api|auth|admin|account|bell|tokens|join|docs/api)(/|$|\?)|/b/[^/]+/submit|/s/\d+/trace|.*/events"
)
_FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
_ACCOUNT = re.compile(
    r'<a (class="account"|href="/admin"|class="button[^"]*" href="/b/[^"]*/submit)[^>]*>.*?</a>\n?'
)
_LIVE = re.compile(r' data-live[a-z-]*="[^"]*"')
_LINK = re.compile(r'\s(href|src)="(?!\w+:)([^"#][^"]*)"')
_WITHOUT_TARGET = re.compile(r"( · )?<a\b(?![^>]*\shref=)[^>]*>.*?</a>", re.DOTALL)
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")


@dataclass
class _Site:
    client: httpx.AsyncClient
    folder: Path
    files: dict[str, str | None] = field(default_factory=dict)
    """Address to file, None for what cannot be a file."""
    pages: dict[str, str] = field(default_factory=dict)
    """Address to HTML, until all files are known."""
    open: deque[str] = field(default_factory=deque)

    def ask_for(self, address: str) -> None:
        """Note an address that a page links to."""
        if address not in self.files and not NEEDS_SERVER.match(address) and len(self.files) < MOST_FILES:
            self.files[address] = None
            self.open.append(address)

    async def fetch(self, address: str) -> None:
        """Fetch one address; anything but a page is written at once."""
        answer = await self.client.get(address)
        if answer.status_code != httpx.codes.OK:
            return
        is_page = answer.headers.get("content-type", "").startswith("text/html")
        self.files[address] = file = file_of(address, is_page=is_page)
        if is_page:
            self.pages[address] = text = _ACCOUNT.sub("", _LIVE.sub("", _FORM.sub("", answer.text)))
            for link in _LINK.finditer(text):
                self.ask_for(urljoin(address, unescape(link[2])).partition("#")[0])
        else:
            _write(self.folder / file, answer.content)

    def write_page(self, address: str) -> None:
        """Write a page with links to the files of the others."""
        file = self.files[address]
        assert file is not None
        text = _LINK.sub(lambda link: self._relative(link, address, file), self.pages[address])
        _write(self.folder / file, _WITHOUT_TARGET.sub("", text).encode())

    def _relative(self, link: re.Match[str], page: str, file: str) -> str:
        address, mark, part = urljoin(page, unescape(link[2])).partition("#")
        target = self.files.get(address)
        if target is None:
            return ""
        path = quote(os.path.relpath(target, os.path.dirname(file) or "."))
        return f' {link[1]}="{escape(path + mark + part)}"'


def write_site(platform: Platform, folder: Path, *, token: str = "", also: Sequence[str] = ()) -> Path:
    """Write all pages that are reachable from the first one, and return the first page's file.

    Args:
        platform: The service.
        folder: Where the files go.
        token: The reader's token; without one, the reader is not signed in.
        also: Addresses of pages that may not be linked from others.
    """
    asyncio.run(_write_all(platform, folder, token, also))
    return folder / "index.html"


async def _write_all(platform: Platform, folder: Path, token: str, also: Sequence[str]) -> None:
    headers = {"Accept": "text/html"} | ({"Authorization": f"Bearer {token}"} if token else {})
    transport = httpx.ASGITransport(app=create_app(platform))
    async with httpx.AsyncClient(
        transport=transport, base_url=platform.config.server.public_url, headers=headers
    ) as client:
        site = _Site(client=client, folder=folder)
        for address in ("/", *also):
            site.ask_for(address)
        while site.open:
            await site.fetch(site.open.popleft())
    for address in site.pages:
        site.write_page(address)


def file_of(address: str, *, is_page: bool) -> str:
    """Return the file name for an address: ``/b/sort?device=cpu`` as ``b/sort~device=cpu.html``."""
    parts = urlsplit(address)
    names = [_UNSAFE.sub("-", unquote(each)) for each in parts.path.split("/")]
    path = "/".join(each for each in names if each not in ("", ".", "..")) or "index"
    query = f"~{_UNSAFE.sub('-', unquote(parts.query))}" if parts.query else ""
    if is_page:
        return f"{path.removesuffix('.html')}{query}.html"
    stem, ending = os.path.splitext(path)
    return f"{stem}{query}{ending}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
