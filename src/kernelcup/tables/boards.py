"""Tables of leaderboards: tasks, devices, late exceptions."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, false
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class TaskVersionRow(Base):
    """A version of a task, which never changes. Parts of the body are repeated in columns for cheap reading."""

    __tablename__ = "task_versions"

    hash: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    lang: Mapped[str]
    ranking_by: Mapped[str]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class LeaderboardRow(Base):
    """A competition."""

    __tablename__ = "leaderboards"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    task_hash: Mapped[str] = mapped_column(ForeignKey("task_versions.hash"), index=True)
    harness: Mapped[str]
    opens_at: Mapped[datetime | None]
    deadline: Mapped[datetime | None]
    creator_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    created_at: Mapped[datetime]
    visibility: Mapped[str] = mapped_column(default="public", server_default="public")
    pseudonymous: Mapped[bool] = mapped_column(default=False, server_default=false())
    after_deadline: Mapped[str] = mapped_column(default="unranked", server_default="unranked")
    code_policy: Mapped[str] = mapped_column(default="after_deadline", server_default="after_deadline")
    freeze_at: Mapped[datetime | None]
    frozen_at: Mapped[datetime | None]
    """When the standings were copied to ``frozen_bests``; None until something changes after the freeze."""
    max_file_bytes: Mapped[int | None]
    review_tags: Mapped[str] = mapped_column(default="", server_default="")
    """Separated by blanks."""
    trust: Mapped[str] = mapped_column(default="any", server_default="any")
    """``any``, or the least level that ranks: ``replayed`` or ``witnessed``."""
    duel: Mapped[bool] = mapped_column(default=False, server_default=false())
    cpu_times: Mapped[bool] = mapped_column(default=False, server_default=false())
    provider_isolation: Mapped[bool] = mapped_column(default=False, server_default=false())
    judging: Mapped[str] = mapped_column(default="", server_default="")
    """The hash of everything that judging depends on: only runs with an equal value rank."""
    judging_since: Mapped[datetime | None]
    """When that last changed; None if it never did."""
    notice: Mapped[str] = mapped_column(default="", server_default="")
    """Notices for participants about changes."""
    discord_thread: Mapped[str] = mapped_column(default="", server_default="")
    """The number of the thread that it had before it was imported; empty for none."""
    seeds_below: Mapped[int | None] = mapped_column(BigInteger)
    course_id: Mapped[int | None] = mapped_column(ForeignKey("courses.id", ondelete="SET NULL"), index=True)
    event_id: Mapped[int | None] = mapped_column(
        ForeignKey("board_events.id", ondelete="SET NULL"), index=True
    )
    event_weight: Mapped[float] = mapped_column(default=1.0, server_default="1")
    """The weight of its points in the event's table."""
    share: Mapped[float] = mapped_column(default=1.0, server_default="1")
    """Its weight among leaderboards whose jobs wait for the same GPUs."""


def new_revision() -> int:
    """Return a revision of a ranking that none had before, nor gets after this one is rolled back."""
    return secrets.randbits(63)


class LeaderboardDeviceRow(Base):
    """A device that a leaderboard accepts, and the revision of its ranking."""

    __tablename__ = "leaderboard_devices"

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    revision: Mapped[int] = mapped_column(BigInteger, default=new_revision)
    """Another one after each change of ``bests``. It is random, so it does not tell how many changes there were."""
    frozen_revision: Mapped[int] = mapped_column(BigInteger, default=new_revision)
    """That of ``frozen_bests``."""


class DeadlineExceptionRow(Base):
    """A user who may submit to a leaderboard after its deadline."""

    __tablename__ = "deadline_exceptions"

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    until: Mapped[datetime]
