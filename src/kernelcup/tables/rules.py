"""Tables of limits and pauses, and the log of what was done."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class LimitRow(Base):
    """A rate limit. A column that is None applies to all."""

    __tablename__ = "limits"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int | None] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), index=True
    )
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    device: Mapped[str | None]
    launcher: Mapped[str | None]
    """For a budget of what the machines of a launcher cost."""
    mode_group: Mapped[str | None]
    """``practice``, ``profile`` or ``ranked``."""
    per_user: Mapped[bool] = mapped_column(default=True)
    """Whether each user has the amount, or all users share it."""
    quantity: Mapped[str]
    """``submissions``, ``gpu_seconds`` or ``cost``."""
    amount: Mapped[float]
    window_s: Mapped[int]


class DeletedUseRow(Base):
    """A deleted submission's use of limits, on one device: deleting gives nothing back."""

    __tablename__ = "deleted_uses"
    __table_args__ = (
        # A covering index: counting reads only the index, even for a user who deletes many submissions.
        Index(None, "user_id", "created_at", "is_first", "mode"),
        Index(None, "leaderboard_id", "created_at", "is_first", "mode"),
        Index(None, "created_at", "is_first", "mode"),
    )

    submission_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    device: Mapped[str] = mapped_column(primary_key=True)
    is_first: Mapped[bool]
    """Whether it counts for the submission if devices do not matter."""
    user_id: Mapped[int]
    leaderboard_id: Mapped[int]
    mode: Mapped[str]
    created_at: Mapped[datetime]
    """When the submission was made."""
    used_at: Mapped[datetime | None]
    """When its GPU time was used; None if it used none."""
    seconds: Mapped[float] = mapped_column(default=0.0)
    cost: Mapped[float] = mapped_column(default=0.0)


class PauseRow(Base):
    """A pause, during which no submissions are accepted."""

    __tablename__ = "pauses"

    scope: Mapped[str] = mapped_column(primary_key=True)
    """``service``, ``leaderboard`` or ``device``."""
    key: Mapped[str] = mapped_column(primary_key=True)
    """Empty, the leaderboard's id, or the device's name in lower case."""
    reason: Mapped[str]
    since: Mapped[datetime]
    by: Mapped[str]


class AuditRow(Base):
    """The use of a right that not all users have. Only deleted users' names change in it; it outlives its target."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "target", "id"), Index(None, "action", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    actor_id: Mapped[int | None]
    actor: Mapped[str]
    action: Mapped[str]
    target: Mapped[str]
    """For example ``board:vectoradd``, ``user:ada``, ``submission:7``."""
    detail: Mapped[dict[str, Any]]
