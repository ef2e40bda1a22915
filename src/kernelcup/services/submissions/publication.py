"""When the code of a leaderboard's submissions becomes public."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup.domain import CodePolicy, Leaderboard
from kernelcup.storage.boards import late_exceptions


def is_published(session: Session, board: Leaderboard, *, now: datetime | None) -> bool:
    """Return whether everyone who sees a leaderboard may read the code of its ranked submissions.

    The code becomes public after the deadline and all late exceptions, if the leaderboard's policy is to publish
    it, and not while the leaderboard is frozen. A pseudonymous leaderboard never publishes code, since code
    reveals its author.

    Args:
        session: The transaction.
        board: The leaderboard.
        now: The time; None for a caller for whom nothing counts as published.
    """
    if board.code_policy is not CodePolicy.AFTER_DEADLINE or board.pseudonymous:
        return False
    if now is None or board.deadline is None or now <= board.deadline:
        return False
    if board.freeze_at is not None and now >= board.freeze_at:
        return False
    late = late_exceptions.latest(session, board.id)
    return late is None or now > late
