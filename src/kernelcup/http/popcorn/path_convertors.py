"""Restricted path parameters, so that these routes do not swallow other paths."""

from __future__ import annotations

import re

from starlette.convertors import Convertor, register_url_convertor

from kernelcup.app.boards.boards import RESERVED_NAMES


class BoardConvertor(Convertor[str]):
    """A possible name of a leaderboard: not the first part of one of our own paths."""

    regex = f"(?!(?i:{'|'.join(map(re.escape, sorted(RESERVED_NAMES)))})/)[^/]+"

    def convert(self, value: str) -> str:
        """Return the name."""
        return value

    def to_string(self, value: str) -> str:
        """Return the name."""
        return value


class ModeConvertor(Convertor[str]):
    """A mode in any case; the route refuses unknown modes and lists the valid ones."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the mode in small letters."""
        return value.lower()

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("popcorn_board", BoardConvertor())
register_url_convertor("popcorn_mode", ModeConvertor())

BOARD = "{leaderboard:popcorn_board}"
ANY_MODE = "{mode:popcorn_mode}"
