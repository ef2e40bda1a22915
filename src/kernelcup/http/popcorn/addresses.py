"""Parts of addresses that say what may stand there, so that these routes swallow no other address."""

from __future__ import annotations

import re

from starlette.convertors import Convertor, register_url_convertor

from kernelcup.services.boards import RESERVED_NAMES


class BoardConvertor(Convertor[str]):
    """What can be the name of a leaderboard: no first part of an address of ours."""

    regex = f"(?!(?i:{'|'.join(map(re.escape, sorted(RESERVED_NAMES)))})/)[^/]+"

    def convert(self, value: str) -> str:
        """Return the name."""
        return value

    def to_string(self, value: str) -> str:
        """Return the name."""
        return value


class ModeConvertor(Convertor[str]):
    """What is sent as a mode, in any case; the route refuses what is none, and names those that there are."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the mode in small letters."""
        return value.lower()

    def to_string(self, value: str) -> str:
        """Return the mode."""
        return value


register_url_convertor("popcorn_board", BoardConvertor())
register_url_convertor("popcorn_mode", ModeConvertor())

BOARD = "{leaderboard:popcorn_board}"
ANY_MODE = "{mode:popcorn_mode}"
