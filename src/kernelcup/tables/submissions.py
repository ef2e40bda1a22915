"""Tables of submissions: their code, what a second opinion found, what happened."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class CodeRow(Base):
    """The code of a submission, stored once for equal ones."""

    __tablename__ = "code"

    hash: Mapped[str] = mapped_column(primary_key=True)
    files: Mapped[dict[str, Any]]
    """Name to text; a single file has no name here, since equal texts are one code whatever their names."""


class SubmissionRow(Base):
    """One submission."""

    __tablename__ = "submissions"
    __table_args__ = (
        Index(None, "user_id", "id"),
        Index(None, "leaderboard_id", "id"),
        Index(None, "leaderboard_id", "user_id", "id"),
        Index(None, "user_id", "created_at"),
        Index(None, "leaderboard_id", "created_at"),
        Index("uq_submissions_user_id_idempotency_key", "user_id", "idempotency_key", unique=True),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    code_hash: Mapped[str] = mapped_column(ForeignKey("code.hash"), index=True)
    file_name: Mapped[str]
    """The entry: the only file, or the one that has the kernel."""
    mode: Mapped[str]
    created_at: Mapped[datetime]
    client: Mapped[str] = mapped_column(default="", server_default="")
    idempotency_key: Mapped[str | None]
    request_hash: Mapped[str | None]
    """SHA-256 (hex) of the request with this key."""
    profile: Mapped[dict[str, Any] | None]
    """What to profile; null unless it was said."""
    withdrawn_at: Mapped[datetime | None]
    """When its author withdrew it from a table that was finished, and so keeps it."""


class ScreeningRow(Base):
    """The screening of a submission, with the version of the rules."""

    __tablename__ = "screenings"

    submission_id: Mapped[int] = mapped_column(
        ForeignKey("submissions.id", ondelete="CASCADE"), primary_key=True
    )
    rules_version: Mapped[str]
    left_out: Mapped[int] = mapped_column(default=0)
    """The number of findings beyond those that are kept."""


class ScreeningFindingRow(Base):
    """One finding of a second opinion in a submission."""

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


class EventRow(Base):
    """An event of a submission, for its viewers."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "submission_id", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submissions.id", ondelete="CASCADE"))
    job_id: Mapped[int | None]
    at: Mapped[datetime]
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]
