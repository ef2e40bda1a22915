"""Addresses that the bot, the command line and the API tell lead somewhere; ``test_every_form`` walks the pages."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_links_that_programs_tell_are_known() -> None:
    told = {each for path in SOURCES.rglob("*.py") for each in TOLD.findall(path.read_text(encoding="utf-8"))}
    assert told == set(EXAMPLES)


def test_links_of_the_bot_and_the_command_line_are_answered(client, competition) -> None:
    for path in ("/", "/b/GRAYSCALE", "/auth/login", *(set(EXAMPLES.values()) - {""})):
        assert client.get(path).status_code == 200, path
