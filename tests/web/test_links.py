"""Every link of the pages leads somewhere."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urldefrag

import pytest

import kernelcup

SOURCES = Path(kernelcup.__file__).parent
TOLD = re.compile(r"""public_url\}(/[^"'\[>]*)""")
EXAMPLES = {
    "/b/{name}": "/b/grayscale",
    "/s/{shown": "/s/76",
    "/s/{number}": "/s/76",
    "/s/{self._followed.submission}": "/s/76",
    "/s/{submission": "/s/76",
    "/{page}": "/b/grayscale",
    "/{path}": "/b/grayscale/card.png",
    "/auth/device": "/auth/device",
    "/auth/callback/{found.name}": "",
}
"""What the bot, the command line and the API tell, with an address of that form; empty where a provider calls it."""
STARTS = ("/", "/queue", "/b/matmul-fp8", "/b/top-k")
ENOUGH = 150
"""Pages; there are more, of the same kinds."""


def links_of(html):
    """Return the addresses of our own pages and files that a page has."""
    found = re.findall(r'(?:href|src|data-live)="([^"]+)"', html)
    return [urldefrag(unescape(each)).url for each in found if each.startswith("/")]


def kind_of(path):
    """Return an address without its numbers: of a hundred submissions' pages a few are enough."""
    return re.sub(r"\d+", "#", path)


def test_every_link_that_pages_make_is_answered(client, competition, person, signed_in) -> None:
    client.cookies.update(signed_in(person("ada")))
    waiting, seen, kinds, dead = [("", each) for each in STARTS], set(STARTS), {}, []
    while waiting and len(seen) < ENOUGH:
        source, path = waiting.pop(0)
        if "/live?" in path:
            continue  # a stream, which does not end
        answer = client.get(path, follow_redirects=False, headers={"Accept": "text/html"})
        if answer.status_code >= 400:
            dead.append((source, path, answer.status_code))
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        for link in links_of(answer.text):
            kind = kind_of(link)
            if link not in seen and kinds.get(kind, 0) < 2:
                seen.add(link)
                kinds[kind] = kinds.get(kind, 0) + 1
                waiting.append((path, link))
    assert not dead
    assert any(path.startswith("/b/prefixsum/duels/") for path in seen)


def test_links_that_programs_tell_are_known() -> None:
    told = {each for path in SOURCES.rglob("*.py") for each in TOLD.findall(path.read_text(encoding="utf-8"))}
    assert told == set(EXAMPLES)


@pytest.mark.parametrize("path", ["/", "/b/GRAYSCALE", "/auth/login", *sorted(set(EXAMPLES.values()) - {""})])
def test_links_of_the_bot_and_the_command_line_are_answered(client, competition, path) -> None:
    assert client.get(path).status_code == 200
