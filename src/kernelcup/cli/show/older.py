"""Results apart from the ranking: by a clock that is out of use, or of a level that the leaderboard does not rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernelcup.clocks import OLDER_CLOCK, rejudge_command

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.cli.backend.base import Backend
    from kernelcup.client.models import BoardInfo
    from kernelcup.domain import Standing


def print_older(out: Console, board: str, device: str, places: Sequence[Standing], option: str) -> None:
    """Print results of one (leaderboard, device) that stand apart, and the command that judges them again."""
    from kernelcup.cli.show import ranking

    if not places:
        return
    title = f"{board} on {device}, {OLDER_CLOCK}"
    note = f"apart from the ranking until judged again: {rejudge_command(board, option)}"
    ranking.places_table(out, title, places, (note,))


def print_unranked(out: Console, board: BoardInfo, device: str, places: Sequence[Standing]) -> None:
    """Print results of one (leaderboard, device) of a level that the leaderboard does not rank."""
    from kernelcup.cli.show import ranking
    from kernelcup.reporting.phrases import unranked

    if places:
        why = unranked(board.trust)
        ranking.places_table(out, f"{board.name} on {device}, not ranked", places, (why,), ranked=False)


def count_older(backend: Backend, board: BoardInfo) -> dict[str, int]:
    """Return how many results stand apart on each device that has some, as far as they are shown."""
    counts = {device: len(backend.older_standings(board.name, device)) for device in board.devices}
    return {device: count for device, count in counts.items() if count}


def older_text(board: str, counts: Mapping[str, int], option: str) -> str:
    """Say what stands apart, and how it comes back."""
    found = ", ".join(f"{count} on {device}" for device, count in counts.items())
    return (
        f"{OLDER_CLOCK}, so apart from the ranking until judged again: {found}\n"
        f"  {rejudge_command(board, option)}"
    )
