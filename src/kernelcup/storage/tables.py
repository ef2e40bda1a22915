"""The tables. Mapped classes stay inside ``storage``; everybody else sees the domain's nouns."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    Index,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
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


def table_of(row: type[Base]) -> Table:
    """Return the table behind a mapped class: inserting into it goes around the unit of work."""
    assert isinstance(row.__table__, Table)
    return row.__table__


class UserRow(Base):
    """A person, whatever doors they come through."""

    __tablename__ = "users"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    """The name folded, so that nobody can pose as somebody else by case alone."""
    role: Mapped[str] = mapped_column(default="participant", server_default="participant")
    banned_at: Mapped[datetime | None]
    ban_reason: Mapped[str] = mapped_column(default="", server_default="")
    direct_messages: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether bots write to them when a result of theirs is overtaken."""
    created_at: Mapped[datetime]


class IdentityRow(Base):
    """Somebody's account at a sign-in provider. The provider is part of the key: numbers collide."""

    __tablename__ = "identities"

    provider: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    """What the provider calls the account for ever, such as a number; never a name that can change."""
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    login: Mapped[str]
    """Its name there when it was last seen."""
    created_at: Mapped[datetime]


class TokenRow(Base):
    """A secret that stands for a user. Only its hash is kept."""

    __tablename__ = "tokens"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]
    """``api``, ``popcorn`` or ``session``."""
    name: Mapped[str]
    hash: Mapped[str] = mapped_column(unique=True)
    """SHA-256 (hex); the secrets have 256 random bits, so nothing slower is needed."""
    scopes: Mapped[str]
    """Separated by blanks."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class DeviceLoginRow(Base):
    """A command line that waits for somebody to let it in, in a browser anywhere."""

    __tablename__ = "device_logins"

    device_code_hash: Mapped[str] = mapped_column(primary_key=True)
    user_code: Mapped[str] = mapped_column(unique=True)
    client: Mapped[str]
    scopes: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    polled_at: Mapped[datetime | None]
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """Who let it in."""
    denied: Mapped[bool] = mapped_column(default=False)


class LoginLinkRow(Base):
    """A link that signs one user in once."""

    __tablename__ = "login_links"

    hash: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


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
    visibility: Mapped[str] = mapped_column(default="public", server_default="public")
    pseudonymous: Mapped[bool] = mapped_column(default=False, server_default=false())
    code_policy: Mapped[str] = mapped_column(default="never", server_default="never")
    freeze_at: Mapped[datetime | None]
    frozen_at: Mapped[datetime | None]
    """When the standings of the freeze were copied to ``frozen_bests``; None while nothing changed since."""
    max_file_bytes: Mapped[int | None]
    review_tags: Mapped[str] = mapped_column(default="", server_default="")
    """Separated by blanks."""
    trust: Mapped[str] = mapped_column(default="any", server_default="any")
    """``any``, or ``audited`` where only such times rank."""
    duel: Mapped[bool] = mapped_column(default=False, server_default=false())
    judging: Mapped[str] = mapped_column(default="", server_default="")
    """What judging depends on: only runs with the same rank."""
    notice: Mapped[str] = mapped_column(default="", server_default="")
    """What participants have to know of changes."""
    seeds_below: Mapped[int | None] = mapped_column(BigInteger)
    event: Mapped[str] = mapped_column(default="", server_default="")
    """The event that it is part of; empty for none."""


class LeaderboardDeviceRow(Base):
    """A device that a leaderboard accepts."""

    __tablename__ = "leaderboard_devices"

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]


class MemberRow(Base):
    """Somebody who may see a closed leaderboard, and under which name others see them."""

    __tablename__ = "members"
    __table_args__ = (UniqueConstraint("leaderboard_id", "pseudonym"),)

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    pseudonym: Mapped[str | None]
    joined_at: Mapped[datetime]


class InviteRow(Base):
    """A code that makes one user a member of some leaderboards."""

    __tablename__ = "invites"

    code: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(default="")
    """Whom it is meant for, such as a line of a class list."""
    pseudonym: Mapped[str | None]
    created_by: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), index=True)
    created_at: Mapped[datetime]
    claimed_by: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), index=True)
    claimed_at: Mapped[datetime | None]


class InviteBoardRow(Base):
    """A leaderboard that an invite opens."""

    __tablename__ = "invite_boards"

    code: Mapped[str] = mapped_column(ForeignKey("invites.code", ondelete="CASCADE"), primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class LimitRow(Base):
    """How much may be asked for in a time. What is None applies to all."""

    __tablename__ = "limits"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int | None] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), index=True
    )
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    device: Mapped[str | None]
    mode_group: Mapped[str | None]
    """``practice`` or ``ranked``."""
    per_user: Mapped[bool] = mapped_column(default=True)
    """Whether each user has the amount, or all have it together."""
    quantity: Mapped[str]
    """``submissions`` or ``gpu_seconds``."""
    amount: Mapped[float]
    window_s: Mapped[int]


class DeadlineExceptionRow(Base):
    """A user who may submit to a leaderboard for longer."""

    __tablename__ = "deadline_exceptions"

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    until: Mapped[datetime]


class DeletedUseRow(Base):
    """What a deleted submission had used of the limits, on one device: deleting gives nothing back."""

    __tablename__ = "deleted_uses"
    __table_args__ = (
        # With all that counting asks for: of somebody who deletes much it reads the index only.
        Index(None, "user_id", "created_at", "is_first", "mode"),
        Index(None, "leaderboard_id", "created_at", "is_first", "mode"),
        Index(None, "created_at", "is_first", "mode"),
    )

    submission_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    device: Mapped[str] = mapped_column(primary_key=True)
    is_first: Mapped[bool]
    """Whether it stands for the submission where devices do not matter."""
    user_id: Mapped[int]
    leaderboard_id: Mapped[int]
    mode: Mapped[str]
    created_at: Mapped[datetime]
    """Of the submission."""
    used_at: Mapped[datetime | None]
    """When its GPU time was used up; None where it used none."""
    seconds: Mapped[float] = mapped_column(default=0.0)


class PauseRow(Base):
    """Something that takes no submissions now."""

    __tablename__ = "pauses"

    scope: Mapped[str] = mapped_column(primary_key=True)
    """``service``, ``leaderboard`` or ``device``."""
    key: Mapped[str] = mapped_column(primary_key=True)
    """Empty, the leaderboard's id, or the device's name in small letters."""
    reason: Mapped[str]
    since: Mapped[datetime]
    by: Mapped[str]


class AuditRow(Base):
    """That somebody used a right that others do not have. Never changed, and outlives what it is about."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "target", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    actor_id: Mapped[int | None]
    actor: Mapped[str]
    action: Mapped[str]
    target: Mapped[str]
    """Such as ``board:vectoradd``, ``user:ada``, ``submission:7``."""
    detail: Mapped[dict[str, Any]]


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
    mode: Mapped[str]
    created_at: Mapped[datetime]
    client: Mapped[str] = mapped_column(default="", server_default="")
    idempotency_key: Mapped[str | None]
    request_hash: Mapped[str | None]
    """SHA-256 (hex) of what was asked for under the key."""


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
        # What waits and what runs is little beside what is done: these stay small.
        Index(
            "ix_jobs_queue",
            "device",
            "priority",
            "turn",
            "id",
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
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submissions.id", ondelete="CASCADE"))
    user_id: Mapped[int] = mapped_column(default=0, server_default="0")
    task_hash: Mapped[str] = mapped_column(ForeignKey("task_versions.hash"), index=True)
    device: Mapped[str]
    mode: Mapped[str]
    state: Mapped[str]
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    turn: Mapped[int] = mapped_column(default=0, server_default="0")
    """Round of the queue: users take turns within a priority of a device."""
    attempt: Mapped[int] = mapped_column(default=1)
    first_attempt: Mapped[int] = mapped_column(default=1, server_default="1")
    lease_owner: Mapped[str | None]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime]
    queued_at: Mapped[datetime | None]
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
    task_hash: Mapped[str] = mapped_column(default="", server_default="", index=True)
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
    score_low_s: Mapped[float | None]
    score_high_s: Mapped[float | None]
    """Ends of the score's 95 % interval."""
    score_raw_s: Mapped[float | None]
    """The score from what the submission's clock read."""
    at_floor: Mapped[bool] = mapped_column(default=False, server_default=false())
    rank_s: Mapped[float | None]
    """What it is ranked by where that is not its score."""
    duel: Mapped[str] = mapped_column(default="", server_default="")
    """Empty, ``won``, ``tied``, ``lost``, ``missed`` or ``unanswered``."""
    rival_id: Mapped[int | None]
    """The submission that it was measured against; it may be gone."""
    calibration_id: Mapped[int | None]
    """Of the device, in force when it was measured: a ``device_calibrations.id``, which is never deleted."""
    judging: Mapped[str] = mapped_column(default="", server_default="")
    """What judging it depended on: the task version without its texts, and the harness."""
    clock: Mapped[str] = mapped_column(default="", server_default="")
    """By which clock it was timed."""


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
    """What it is ranked by: the run's ``rank_s``, else its score."""
    low_s: Mapped[float | None]
    """Ends of its interval, moved to that."""
    high_s: Mapped[float | None]
    raw_s: Mapped[float | None]
    at_floor: Mapped[bool] = mapped_column(default=False, server_default=false())
    duel: Mapped[str] = mapped_column(default="", server_default="")


class FrozenBestRow(Base):
    """A row of ``bests`` as it was when its leaderboard froze."""

    __tablename__ = "frozen_bests"
    __table_args__ = (Index(None, "leaderboard_id", "device", "score_s", "submission_id"),)

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    submission_id: Mapped[int]
    score_s: Mapped[float]
    """What it is ranked by: the run's ``rank_s``, else its score."""
    low_s: Mapped[float | None]
    """Ends of its interval, moved to that."""
    high_s: Mapped[float | None]
    raw_s: Mapped[float | None]
    at_floor: Mapped[bool] = mapped_column(default=False, server_default=false())
    duel: Mapped[str] = mapped_column(default="", server_default="")


class OlderBestRow(Base):
    """The run that stood for a user when the clock that timed it went out of use.

    It is shown apart while it counts, so until it is judged again.
    """

    __tablename__ = "older_bests"
    __table_args__ = (Index(None, "leaderboard_id", "device", "ranked_s", "submission_id"),)

    leaderboard_id: Mapped[int] = mapped_column(
        ForeignKey("leaderboards.id", ondelete="CASCADE"), primary_key=True
    )
    device: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    submission_id: Mapped[int]
    ranked_s: Mapped[float]
    """What it was ranked by."""


class RecordRow(Base):
    """That a user's best got better: the history of a ranking."""

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


class ComparisonRow(Base):
    """That a job measures its submission in turns with another one, for no ranking."""

    __tablename__ = "comparisons"

    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    first_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="SET NULL"), index=True
    )
    """The submission whose code the job's own has."""
    second_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="SET NULL"), index=True
    )


class ReviewRow(Base):
    """A result that waits for a person, and what that person decided."""

    __tablename__ = "reviews"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), index=True)
    code_hash: Mapped[str] = mapped_column(default="", server_default="", index=True)
    """Of the submission's text: what was decided about a text is looked up for each result."""
    opened_at: Mapped[datetime]
    opened_by: Mapped[str]
    """A person, or what noticed it by itself."""
    reason: Mapped[str]
    evidence: Mapped[dict[str, Any]]
    decision: Mapped[str | None]
    """``released`` or ``rejected``."""
    decided_at: Mapped[datetime | None]
    decided_by: Mapped[str | None]
    note: Mapped[str] = mapped_column(default="")


class EventRow(Base):
    """Something that happened to a submission, for those who watch it."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "submission_id", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[int] = mapped_column(ForeignKey("submissions.id", ondelete="CASCADE"))
    job_id: Mapped[int | None]
    at: Mapped[datetime]
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]


class DispatcherRow(Base):
    """A dispatcher that gave a sign of life."""

    __tablename__ = "dispatchers"

    owner: Mapped[str] = mapped_column(primary_key=True)
    machine: Mapped[str]
    devices: Mapped[dict[str, Any]]
    """Device to its slots."""
    in_use: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """Device to how many of its slots something else uses, such as another program of the machine."""
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    draining: Mapped[bool] = mapped_column(default=False)


class PaceRow(Base):
    """How long jobs took: what waiting times are estimated from."""

    __tablename__ = "paces"

    device: Mapped[str] = mapped_column(primary_key=True)
    mode: Mapped[str] = mapped_column(primary_key=True)
    mean_s: Mapped[float]
    count: Mapped[int]


class DeviceFaultRow(Base):
    """A GPU that is out of service."""

    __tablename__ = "device_faults"

    machine: Mapped[str] = mapped_column(primary_key=True)
    gpu: Mapped[str] = mapped_column(primary_key=True)
    device: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]
    next_look_at: Mapped[datetime]


class DeviceCalibrationRow(Base):
    """What a device could do at one moment."""

    __tablename__ = "device_calibrations"
    __table_args__ = (Index(None, "machine", "gpu", "device", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    machine: Mapped[str]
    gpu: Mapped[str]
    """As in ``CUDA_VISIBLE_DEVICES``; empty for a device without GPUs."""
    device: Mapped[str]
    at: Mapped[datetime]
    fits: Mapped[bool]
    fresh: Mapped[bool]
    """Whether canaries from before it do not count."""
    vouched_at: Mapped[datetime | None]
    """When an operator last vouched for the device: canaries from before that do not count either."""
    found: Mapped[dict[str, Any]]


class CanaryRow(Base):
    """How long the canary took before a ranked job, or in a calibration."""

    __tablename__ = "canaries"
    __table_args__ = (NEVER_REUSE_IDS,)

    id: Mapped[int] = mapped_column(primary_key=True)
    calibration_id: Mapped[int] = mapped_column(
        ForeignKey("device_calibrations.id", ondelete="CASCADE"), index=True
    )
    """The calibration in force."""
    at: Mapped[datetime]
    canary_ns: Mapped[float]
    fits: Mapped[bool]


class NewsRow(Base):
    """A piece of news of a leaderboard. Its number is what receivers recognise repeats by."""

    __tablename__ = "news"
    __table_args__ = (
        Index(None, "leaderboard_id", "id"),
        Index(None, "recipient_id", "id"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    """What happened: the same fact is stored once, however many processes notice it."""
    kind: Mapped[str]
    at: Mapped[datetime]
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    device: Mapped[str] = mapped_column(default="", server_default="")
    submission_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="CASCADE"), index=True
    )
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """Whose submission it is."""
    score_s: Mapped[float | None]
    tied: Mapped[bool] = mapped_column(default=False, server_default=false())
    other_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """Who held the place before."""
    other_submission_id: Mapped[int | None]
    recipient_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    """Whom it addresses; None for everybody."""
    moment: Mapped[datetime | None]
    """The deadline that it announces."""


class WebhookRow(Base):
    """An address that is told a leaderboard's news."""

    __tablename__ = "webhooks"
    __table_args__ = (NEVER_REUSE_IDS,)

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"), index=True)
    url: Mapped[str]
    secret: Mapped[str]
    """Signs each delivery, so it is stored as it is."""
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    failures: Mapped[int] = mapped_column(default=0, server_default="0")
    """Failed attempts since the last success."""
    last_error: Mapped[str] = mapped_column(default="", server_default="")
    succeeded_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]


class WebhookDeliveryRow(Base):
    """A piece of news that a webhook has not taken yet."""

    __tablename__ = "webhook_deliveries"

    webhook_id: Mapped[int] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True)
    news_id: Mapped[int] = mapped_column(
        ForeignKey("news.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    next_at: Mapped[datetime]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]


class DeletedReviewRow(Base):
    """What the docket keeps of a reviewed result whose submission was deleted."""

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
