"""When the code of a leaderboard's submissions is shown to others."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup.domain import CodePolicy, Leaderboard
from kernelcup.storage import exceptions


def is_published(session: Session, board: Leaderboard, *, now: datetime | None) -> bool:
    """Return whether everybody who sees a leaderboard may read the code of what was ranked there.

    That is after its deadline and all late exceptions to it, where its policy says so, and not while
    it is frozen. Nothing is ever published of a pseudonymous leaderboard: code tells who wrote it.

    Args:
        session: The transaction.
        board: The leaderboard.
        now: When somebody asks; None for a caller to whom nothing counts as published.
    """
    if board.code_policy is not CodePolicy.AFTER_DEADLINE or board.pseudonymous:
        return False
    if now is None or board.deadline is None or now <= board.deadline:
        return False
    if board.freeze_at is not None and now >= board.freeze_at:
        return False
    late = exceptions.latest(session, board.id)
    return late is None or now > late
