"""Tables of the queue: jobs, comparisons, dispatchers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false, text
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class JobRow(Base):
    """One submission on one device, and its lease."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("submission_id", "device"),
        # Few jobs wait or run compared with those that are done, so these indexes stay small.
        Index(
            "ix_jobs_queue",
            "device",
            "priority",
            "turn",
            "id",
            "leaderboard_id",
            sqlite_where=text("state = 'queued'"),
            postgresql_where=text("state = 'queued'"),
        ),
        Index(
            "ix_jobs_queue_of_user",
            "user_id",
            "device",
            "priority",
            "turn",
            sqlite_where=text("state = 'queued'"),
            postgresql_where=text("state = 'queued'"),
        ),
        Index(
            "ix_jobs_running",
            "device",
            "lease_until",
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        Index(
            "ix_jobs_quarantined",
            "id",
            sqlite_where=text("state = 'quarantined'"),
            postgresql_where=text("state = 'quarantined'"),
        ),
        Index(
            "ix_jobs_halted",
            "id",
            sqlite_where=text("state = 'halted'"),
            postgresql_where=text("state = 'halted'"),
        ),
        Index(
            "ix_jobs_practice",
            "leaderboard_id",
            "device",
            sqlite_where=text("practice = 1"),
            postgresql_where=text("practice"),
        ),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submissions.id", ondelete="CASCADE"))
    user_id: Mapped[int] = mapped_column(default=0, server_default="0")
    leaderboard_id: Mapped[int]
    """Of its submission: the queue gives each leaderboard its share."""
    task_hash: Mapped[str] = mapped_column(ForeignKey("task_versions.hash"), index=True)
    device: Mapped[str]
    mode: Mapped[str]
    state: Mapped[str]
    practice: Mapped[bool] = mapped_column(default=False, server_default=false())
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    turn: Mapped[int] = mapped_column(default=0, server_default="0")
    """Round of the queue: users take turns within a priority of a device."""
    attempt: Mapped[int] = mapped_column(default=1)
    first_attempt: Mapped[int] = mapped_column(default=1, server_default="1")
    lost: Mapped[int] = mapped_column(default=0, server_default="0")
    lease_owner: Mapped[str | None]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    call: Mapped[str | None]
    """The launcher's name for the running attempt, if it outlives the dispatcher."""
    machine: Mapped[str | None]
    """The machine that judges it, if that is not the dispatcher's."""
    reason: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime]
    queued_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class ComparisonRow(Base):
    """A job that measures its submission in turns with another one, without ranking."""

    __tablename__ = "comparisons"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    first_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="SET NULL"), index=True
    )
    """The submission whose code the job's submission copies."""
    second_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="SET NULL"), index=True
    )


class DispatcherRow(Base):
    """A dispatcher's latest heartbeat."""

    __tablename__ = "dispatchers"

    owner: Mapped[str] = mapped_column(primary_key=True)
    machine: Mapped[str]
    devices: Mapped[dict[str, Any]]
    """The number of slots by device."""
    in_use: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """The number of slots that something else uses, by device, for example another program of the machine."""
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    draining: Mapped[bool] = mapped_column(default=False)


class PaceRow(Base):
    """Mean durations of jobs, from which waiting times are estimated."""

    __tablename__ = "paces"

    device: Mapped[str] = mapped_column(primary_key=True)
    mode: Mapped[str] = mapped_column(primary_key=True)
    mean_s: Mapped[float]
    count: Mapped[int]
