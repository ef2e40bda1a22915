"""Leaderboards as text for people, and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kernelcup.cli.backend.base import Backend

if TYPE_CHECKING:
    from kernelcup.client.models import BoardInfo


def times(board: BoardInfo) -> str:
    """Describe when a leaderboard opens, closes and freezes."""
    opens = f"opens {moment(board.opens_at)}; " if board.opens_at is not None else ""
    closes = "no deadline" if board.deadline is None else f"closes {moment(board.deadline)}"
    if board.freeze_at is None:
        return opens + closes
    is_frozen = board.freeze_at <= datetime.now(UTC)
    return f"{opens}{closes}; {'frozen since' if is_frozen else 'freezes'} {moment(board.freeze_at)}"


def rules_text(board: BoardInfo) -> str:
    """Describe which times rank, what a new first place needs, and who sees code."""
    from kernelcup.reporting.phrases import after_rule, code_rule, cpu_rule, ranking_levels

    which = ranking_levels(board.trust)
    duel = "; a new first place must win a duel" if board.duel else ""
    cpu = f"; {cpu_rule(board.cpu_times)}"
    after = "" if board.deadline is None else f" {after_rule(board.after_deadline)}"
    return f"{which}{duel}{cpu}. {code_rule(board)}{after}"


def moment(utc: datetime) -> str:
    """Return a moment in UTC, and in local time if that differs."""
    try:
        local = utc.astimezone()
    except OverflowError:  # the last hours of the year 9999, east of UTC
        local = utc
    here = f" ({local:%Y-%m-%d %H:%M %Z} here)" if local.utcoffset() else ""
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC{here}"


def no_board(backend: Backend) -> str:
    """Return what to do where there is no leaderboard, or none that the user may see."""
    if backend.server is None:
        return (
            "This machine's database has no leaderboard yet. Next: kernelcup board create TASK, or kernelcup "
            "login SERVER for those of a server"
        )
    if not backend.signed_in:
        return (
            f"{backend.server} shows no leaderboard without a sign-in. Next: kernelcup login {backend.server}"
        )
    return (
        f"{backend.server} has no leaderboard that you may see. Next: kernelcup join CODE, or, as a creator, "
        "kernelcup board create TASK"
    )
