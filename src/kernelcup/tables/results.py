"""Tables of results: runs, standings, reviews."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from kernelcup.tables.base import NEVER_REUSE_IDS, Base


class RunRow(Base):
    """The result of an attempt. The database ensures that at most one run of a job counts."""

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
        Index(None, "machine", "finished_at", "cost"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    attempt: Mapped[int]
    task_hash: Mapped[str] = mapped_column(default="", server_default="", index=True)
    counted: Mapped[bool] = mapped_column(default=True)
    verdict: Mapped[str]
    score_s: Mapped[float | None]
    low_s: Mapped[float | None]
    high_s: Mapped[float | None]
    """Ends of the score's 95 % interval."""
    raw_s: Mapped[float | None]
    """The figure beside it: see :class:`kernelcup.domain.Score`. SQLite would have to read the whole report to reach
    what rankings show if it stood behind it."""
    speedup: Mapped[float | None]
    trust: Mapped[str]
    backend: Mapped[str]
    """Of the device, which decides whether its time may rank."""
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime]
    harness_hash: Mapped[str]
    machine: Mapped[str]
    lent: Mapped[bool] = mapped_column(default=False)
    """Whether the operator did not vouch for the machine."""
    isolation: Mapped[str] = mapped_column(default="", server_default="")
    """``provider`` where a provider's isolation stood in for our sandbox, else empty."""
    host_class: Mapped[str] = mapped_column(default="", server_default="")
    """The class of the machine at that time: its hardware and driver."""
    cost: Mapped[float] = mapped_column(default=0.0, server_default="0")
    """What its slot cost, at the machine's price of that time."""
    report: Mapped[dict[str, Any]]
    """Its beginning only if the whole of it is in a file."""
    report_file: Mapped[str | None]
    """The hash of the whole report's JSON in the file store; it may be deleted by now."""
    rank_s: Mapped[float | None]
    """The time that it is ranked by, if that is not its score."""
    duel: Mapped[str] = mapped_column(default="", server_default="")
    """Empty, ``won``, ``tied``, ``lost``, ``missed``, ``unanswered`` or ``intervals``."""
    rival_id: Mapped[int | None]
    """The submission that it was measured against; it may be gone."""
    calibration_id: Mapped[int | None]
    """The device's calibration in force when it was measured: a ``device_calibrations.id``, which is never deleted."""
    judging: Mapped[str] = mapped_column(default="", server_default="")
    """The hash of everything that judging it depended on: the task version without its texts, and the harness."""
    clock: Mapped[str] = mapped_column(default="", server_default="")
    """The clock that timed it."""


class _Best:
    """The columns of a user's best in a ranking: of one (leaderboard, device, class of machines)."""

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    host_class: Mapped[str] = mapped_column(primary_key=True, default="", server_default="")
    """The class of the run's machine, or all classes that agree with it."""
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    submission_id: Mapped[int]
    score_s: Mapped[float]
    """The time that it is ranked by: see :data:`kernelcup.app.results.queries.ranking_query.RANKED_S`."""
    level: Mapped[int]
    """Decides at equal times: :func:`kernelcup.scoring.level`."""
    low_s: Mapped[float | None]
    """Ends of its interval, moved to that."""
    high_s: Mapped[float | None]
    duel: Mapped[str] = mapped_column(default="", server_default="")


class BestRow(_Best, Base):
    """The best run of a user in a ranking.

    It is derived from the runs and written in the transaction that stores them. Without it the standings would
    have to read every run that was ever made.
    """

    __tablename__ = "bests"
    __table_args__ = (
        Index(None, "leaderboard_id", "device", "host_class", "score_s", "level", "submission_id"),
        # The fastest of a device, whatever the class.
        Index(None, "leaderboard_id", "device", "score_s", "level", "submission_id"),
    )


class FrozenBestRow(_Best, Base):
    """A row of ``bests`` as of its leaderboard's freeze."""

    __tablename__ = "frozen_bests"
    __table_args__ = (
        Index(None, "leaderboard_id", "device", "host_class", "score_s", "level", "submission_id"),
        Index(None, "leaderboard_id", "device", "score_s", "level", "submission_id"),
    )


class FinalRow(Base):
    """A final of one (leaderboard, device): duels of the best, from which the official order follows."""

    __tablename__ = "finals"
    __table_args__ = (Index(None, "leaderboard_id", "device", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    device: Mapped[str]
    contestants: Mapped[list[Any]] = mapped_column(JSON)
    """The submissions that take part, in the order of the standings, as they ranked when it began."""
    error: Mapped[float]
    """Share of finals in which one of the intervals misses, at most."""
    started_by: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The places and the meetings, once it has ended."""


class FinalDuelRow(Base):
    """A job that is a duel of a final. Its submissions' numbers outlive the submissions."""

    __tablename__ = "final_duels"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    final_id: Mapped[int] = mapped_column(ForeignKey("finals.id", ondelete="CASCADE"), index=True)
    first_id: Mapped[int]
    second_id: Mapped[int]
    error: Mapped[float]
    """Its part of the final's error."""


class RecordRow(Base):
    """An improvement of a user's best: the history of a ranking."""

    __tablename__ = "records"
    __table_args__ = (Index(None, "leaderboard_id", "device", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    device: Mapped[str]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    submission_id: Mapped[int]
    score_s: Mapped[float]
    at: Mapped[datetime]


class ReviewRow(Base):
    """The review of a result, and its decision."""

    __tablename__ = "reviews"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    code_hash: Mapped[str] = mapped_column(default="", server_default="", index=True)
    """The hash of the submission's code: earlier decisions about a code are looked up for each result."""
    opened_at: Mapped[datetime]
    opened_by: Mapped[str]
    """A person, or ``kernelcup`` for a rule."""
    reason: Mapped[str]
    evidence: Mapped[dict[str, Any]]
    decision: Mapped[str | None]
    """``released`` or ``rejected``."""
    decided_at: Mapped[datetime | None]
    decided_by: Mapped[str | None]
    note: Mapped[str] = mapped_column(default="")


class DeletedReviewRow(Base):
    """The docket's entry for a reviewed result whose submission was deleted."""

    __tablename__ = "deleted_reviews"
    __table_args__ = (Index(None, "leaderboard_id", "review_id"),)

    review_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    submission_id: Mapped[int]
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), index=True)
    device: Mapped[str]
    score_s: Mapped[float | None]
    finished_at: Mapped[datetime]
    opened_at: Mapped[datetime]
    opened_by: Mapped[str]
    reason: Mapped[str]
    decision: Mapped[str | None]
    decided_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime]
