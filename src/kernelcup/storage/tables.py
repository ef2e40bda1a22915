"""The tables. Mapped classes stay inside ``storage``; all other code uses the classes of the domain."""

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

from kernelcup.storage.engine.columns import Line, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# Otherwise SQLite would give a deleted submission's number to the next one.
NEVER_REUSE_IDS = {"sqlite_autoincrement": True}


class Base(DeclarativeBase):
    """Root of the mapped classes."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime, str: Line, dict[str, Any]: JSON}  # noqa: RUF012


def table_of(row: type[Base]) -> Table:
    """Return the table behind a mapped class; inserting into it bypasses the unit of work."""
    assert isinstance(row.__table__, Table)
    return row.__table__


class UserRow(Base):
    """A person, whichever identities they sign in with."""

    __tablename__ = "users"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = mapped_column(unique=True)
    """The folded name, so that two names cannot differ by case alone."""
    role: Mapped[str] = mapped_column(default="participant", server_default="participant")
    banned_at: Mapped[datetime | None]
    ban_reason: Mapped[str] = mapped_column(default="", server_default="")
    direct_messages: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether bots message them when one of their results is overtaken."""
    created_at: Mapped[datetime]


class IdentityRow(Base):
    """A user's account at a sign-in provider. The provider is part of the key, since numbers collide."""

    __tablename__ = "identities"

    provider: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    """The provider's permanent id for the account, for example a number; never a name that can change."""
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    login: Mapped[str]
    """The account's name when it was last seen."""
    created_at: Mapped[datetime]


class TokenRow(Base):
    """A secret that authenticates a user. Only its hash is stored."""

    __tablename__ = "tokens"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]
    """``api``, ``popcorn`` or ``session``."""
    name: Mapped[str]
    hash: Mapped[str] = mapped_column(unique=True)
    """SHA-256 (hex); the secrets have 256 random bits, so no slower hash is needed."""
    scopes: Mapped[str]
    """Separated by blanks."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class DeviceLoginRow(Base):
    """A command line that waits for a person to approve its sign-in in a browser."""

    __tablename__ = "device_logins"

    device_code_hash: Mapped[str] = mapped_column(primary_key=True)
    user_code: Mapped[str] = mapped_column(unique=True)
    client: Mapped[str]
    scopes: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    polled_at: Mapped[datetime | None]
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """The user who approved it."""
    denied: Mapped[bool] = mapped_column(default=False)


class LoginLinkRow(Base):
    """A one-time sign-in link."""

    __tablename__ = "login_links"

    hash: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


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
    code_policy: Mapped[str] = mapped_column(default="never", server_default="never")
    freeze_at: Mapped[datetime | None]
    frozen_at: Mapped[datetime | None]
    """When the standings were copied to ``frozen_bests``; None until something changes after the freeze."""
    max_file_bytes: Mapped[int | None]
    review_tags: Mapped[str] = mapped_column(default="", server_default="")
    """Separated by blanks."""
    trust: Mapped[str] = mapped_column(default="any", server_default="any")
    """``any``, or ``audited`` if only audited times rank."""
    duel: Mapped[bool] = mapped_column(default=False, server_default=false())
    judging: Mapped[str] = mapped_column(default="", server_default="")
    """The hash of everything that judging depends on: only runs with an equal value rank."""
    notice: Mapped[str] = mapped_column(default="", server_default="")
    """Notices for participants about changes."""
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
    """A user who may see a closed leaderboard, and the pseudonym that others see."""

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
    """The person that it is meant for, for example a line of a class list."""
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
    """A rate limit. A column that is None applies to all."""

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
    """Whether each user has the amount, or all users share it."""
    quantity: Mapped[str]
    """``submissions`` or ``gpu_seconds``."""
    amount: Mapped[float]
    window_s: Mapped[int]


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
    """The use of a right that not all users have. It never changes, and outlives its target."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "target", "id"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    actor_id: Mapped[int | None]
    actor: Mapped[str]
    action: Mapped[str]
    target: Mapped[str]
    """For example ``board:vectoradd``, ``user:ada``, ``submission:7``."""
    detail: Mapped[dict[str, Any]]


class CodeRow(Base):
    """The code of a submission, stored once for equal ones."""

    __tablename__ = "code"

    hash: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class SubmissionRow(Base):
    """One submitted file."""

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
    """SHA-256 (hex) of the request with this key."""


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
    """One finding of the static screen in a submission."""

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
    """The score computed from the submission's own clock, in seconds."""
    at_floor: Mapped[bool] = mapped_column(default=False, server_default=false())
    rank_s: Mapped[float | None]
    """The time that it is ranked by, if that is not its score."""
    duel: Mapped[str] = mapped_column(default="", server_default="")
    """Empty, ``won``, ``tied``, ``lost``, ``missed`` or ``unanswered``."""
    rival_id: Mapped[int | None]
    """The submission that it was measured against; it may be gone."""
    calibration_id: Mapped[int | None]
    """The device's calibration in force when it was measured: a ``device_calibrations.id``, which is never deleted."""
    judging: Mapped[str] = mapped_column(default="", server_default="")
    """The hash of everything that judging it depended on: the task version without its texts, and the harness."""
    clock: Mapped[str] = mapped_column(default="", server_default="")
    """The clock that timed it."""


class BestRow(Base):
    """The best run of a user on one (leaderboard, device).

    It is derived from the runs and written in the transaction that stores them. Without it the standings would
    have to read every run that was ever made.
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
    """The time that it is ranked by: the run's ``rank_s``, else its score."""
    low_s: Mapped[float | None]
    """Ends of its interval, moved to that."""
    high_s: Mapped[float | None]
    raw_s: Mapped[float | None]
    at_floor: Mapped[bool] = mapped_column(default=False, server_default=false())
    duel: Mapped[str] = mapped_column(default="", server_default="")


class FrozenBestRow(Base):
    """A row of ``bests`` as of its leaderboard's freeze."""

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
    """The time that it is ranked by: the run's ``rank_s``, else its score."""
    low_s: Mapped[float | None]
    """Ends of its interval, moved to that."""
    high_s: Mapped[float | None]
    raw_s: Mapped[float | None]
    at_floor: Mapped[bool] = mapped_column(default=False, server_default=false())
    duel: Mapped[str] = mapped_column(default="", server_default="")


class OlderBestRow(Base):
    """The best run of a user when the clock that timed it was replaced.

    It is shown separately while it counts, that is until it is judged again.
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
    """The time that it was ranked by, in seconds."""


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
    """The calibration of a device at one moment."""

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
    """Whether earlier canaries do not count."""
    vouched_at: Mapped[datetime | None]
    """When an operator last vouched for the device: earlier canaries do not count either."""
    found: Mapped[dict[str, Any]]


class CanaryRow(Base):
    """The time of the canary before a ranked job, or in a calibration, in nanoseconds."""

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
    """A news item of a leaderboard. Receivers recognise repeated deliveries by its number."""

    __tablename__ = "news"
    __table_args__ = (
        Index(None, "leaderboard_id", "id"),
        Index(None, "recipient_id", "id"),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    """Identifies the fact, which is stored once however many processes notice it."""
    kind: Mapped[str]
    at: Mapped[datetime]
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"))
    device: Mapped[str] = mapped_column(default="", server_default="")
    submission_id: Mapped[int | None] = mapped_column(
        ForeignKey("submissions.id", ondelete="CASCADE"), index=True
    )
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """The submission's author."""
    score_s: Mapped[float | None]
    tied: Mapped[bool] = mapped_column(default=False, server_default=false())
    other_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """The previous holder of the place."""
    other_submission_id: Mapped[int | None]
    recipient_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    """The user it is addressed to; None for everyone."""
    moment: Mapped[datetime | None]
    """The deadline that it announces."""


class WebhookRow(Base):
    """A URL that receives a leaderboard's news."""

    __tablename__ = "webhooks"
    __table_args__ = (NEVER_REUSE_IDS,)

    id: Mapped[int] = mapped_column(primary_key=True)
    leaderboard_id: Mapped[int] = mapped_column(ForeignKey("leaderboards.id", ondelete="CASCADE"), index=True)
    url: Mapped[str]
    secret: Mapped[str]
    """The key that signs each delivery, so it is stored unhashed."""
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    failures: Mapped[int] = mapped_column(default=0, server_default="0")
    """Failed attempts since the last success."""
    last_error: Mapped[str] = mapped_column(default="", server_default="")
    succeeded_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]


class WebhookDeliveryRow(Base):
    """A news item that is still to be delivered to a webhook."""

    __tablename__ = "webhook_deliveries"

    webhook_id: Mapped[int] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True)
    news_id: Mapped[int] = mapped_column(
        ForeignKey("news.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    next_at: Mapped[datetime]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]


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
