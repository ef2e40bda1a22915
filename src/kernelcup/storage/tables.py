"""The tables. Mapped classes stay inside ``storage``; everybody else sees the domain's nouns."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, MetaData, Text, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from kernelcup.storage.columns import Line, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# SQLite would give a deleted submission's number to the next one.
NEVER_REUSE_IDS = {"sqlite_autoincrement": True}


class Base(DeclarativeBase):
    """Root of the mapped classes."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime, str: Line, dict[str, Any]: JSON}  # noqa: RUF012


class UserRow(Base):
    """A person. Identities at sign-in providers will point here from a table of their own."""

    __tablename__ = "users"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    """The name folded, so that nobody can pose as somebody else by case alone."""
    created_at: Mapped[datetime]


class TaskVersionRow(Base):
    """A task as it was judged; never changed. Some of the body is repeated to be read cheaply."""

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


class LeaderboardDeviceRow(Base):
    """A device that a leaderboard accepts."""

    __tablename__ = "leaderboard_devices"

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]


class CodeRow(Base):
    """The text of a submission, once for all that are equal."""

    __tablename__ = "code"

    hash: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class SubmissionRow(Base):
    """One file that somebody sent."""

    __tablename__ = "submissions"
    __table_args__ = (
        Index(None, "user_id", "id"),
        Index(None, "leaderboard_id", "id"),
        Index(None, "leaderboard_id", "user_id", "id"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    code_hash: Mapped[str] = mapped_column(ForeignKey("code.hash"), index=True)
    file_name: Mapped[str]
    mode: Mapped[str]
    created_at: Mapped[datetime]


class ScreeningRow(Base):
    """That the static screen looked at a submission, and by which rules."""

    __tablename__ = "screenings"

    submission_id: Mapped[int] = mapped_column(
        ForeignKey("submissions.id", ondelete="CASCADE"), primary_key=True
    )
    rules_version: Mapped[str]
    left_out: Mapped[int] = mapped_column(default=0)
    """Findings beyond those that are kept."""


class ScreeningFindingRow(Base):
    """One place in a submission that the static screen points at."""

    __tablename__ = "screening_findings"
    __table_args__ = (Index(None, "tag", "submission_id"),)

    submission_id: Mapped[int] = mapped_column(
        ForeignKey("screenings.submission_id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True)
    tag: Mapped[str]
    line_number: Mapped[int]
    column_number: Mapped[int]
    source: Mapped[str]
    explanation: Mapped[str]


class JobRow(Base):
    """One submission on one device, and who works on it."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("submission_id", "device"),
        Index(None, "state", "device", "id"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submissions.id", ondelete="CASCADE"))
    task_hash: Mapped[str] = mapped_column(ForeignKey("task_versions.hash"), index=True)
    device: Mapped[str]
    mode: Mapped[str]
    state: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=1)
    lease_owner: Mapped[str | None]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class RunRow(Base):
    """What came of an attempt. At most one run of a job counts, and the database sees to it."""

    __tablename__ = "runs"
    __table_args__ = (
        UniqueConstraint("job_id", "attempt"),
        Index(
            "uq_runs_counted_job",
            "job_id",
            unique=True,
            sqlite_where=text("counted"),
            postgresql_where=text("counted"),
        ),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    attempt: Mapped[int]
    counted: Mapped[bool] = mapped_column(default=True)
    verdict: Mapped[str]
    score_s: Mapped[float | None]
    trust: Mapped[str]
    comparable: Mapped[bool]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime]
    harness_hash: Mapped[str]
    machine: Mapped[str]
    report: Mapped[dict[str, Any]]


class BestRow(Base):
    """The run that stands for a user on one (leaderboard, device).

    It follows from the runs and is written in the transaction that stores them. Without it the
    standings would have to look at every run that was ever made.
    """

    __tablename__ = "bests"
    __table_args__ = (Index(None, "leaderboard_id", "device", "score_s", "submission_id"),)

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    submission_id: Mapped[int]
    score_s: Mapped[float]


class DeviceFaultRow(Base):
    """A GPU that is out of service."""

    __tablename__ = "device_faults"

    machine: Mapped[str] = mapped_column(primary_key=True)
    gpu: Mapped[str] = mapped_column(primary_key=True)
    device: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]
    next_look_at: Mapped[datetime]
