"""Who belongs to which closed leaderboard."""

from __future__ import annotations

from sqlalchemy.orm import Session

from kernelcup.storage.tables import MemberRow


def is_member(session: Session, board_id: int, user_id: int) -> bool:
    """Tell whether a user belongs to a leaderboard."""
    return session.get(MemberRow, (board_id, user_id)) is not None
