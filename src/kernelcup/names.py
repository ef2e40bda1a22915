"""The one rule for the names of leaderboards, tasks, courses and events."""

from __future__ import annotations

import re

from kernelcup.errors import InvalidValue

LONGEST_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")
# First path segments of the web site's addresses: the existing client puts leaderboard names there too.
RESERVED_NAMES = frozenset(
    (
        "account admin api assets auth b boards device docket docs e events favicon.ico feed.atom gpus health "
        "healthz invites jobs join leaderboards livez llms.txt login logout mcp metrics new openapi.json profile queue "
        "readyz redoc robots.txt s signin signout start static status submission submission_count submissions "
        "tokens u user users "
    ).split()
)


def check_name(kind: str, name: str) -> None:
    """Raise ``InvalidValue`` if a thing of this kind cannot have this name."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(
            f"{kind} name {name!r}: expected at most {LONGEST_NAME} letters, digits, '-', '_' and '.', "
            "the first a letter or digit."
        )


def check_board_name(name: str, kind: str = "Leaderboard") -> None:
    """Raise ``InvalidValue`` if a leaderboard, or a task that one is made of, cannot have this name."""
    check_name(kind, name)
    if name.lower() in RESERVED_NAMES or name.lower().endswith(".json"):
        raise InvalidValue(f"{kind} name {name!r} is reserved for an address of the web site.")
