"""Leaderboards found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcup.cli.backend.base import Venue

if TYPE_CHECKING:
    from kernelcup.cli.backend.base import Venue
    from kernelcup.client.models import BoardInfo


def find_board(venue: Venue, name: str) -> BoardInfo:
    """Return a leaderboard. Raise ``NotFound`` with what to do next."""
    from kernelcup.cli import wiring
    from kernelcup.errors import NotFound

    with wiring.pointing_to(f"kernelcup board list{venue.option}", NotFound):
        return venue.board(name)
