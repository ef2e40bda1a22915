"""Which job is next in the queue of a device, and its claim.

The queue is ordered by class, then by turn, then by number. Which leaderboard's first job in a class is next is the
dispatcher's choice (:mod:`kernelcup.app.queue.starts`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.orm import Session

from kernelcup.app.machines.queries import machines
from kernelcup.app.queue.queries.jobs import NO_SYNC, QUEUED, RUNNING, Lease, lease_of
from kernelcup.domain import Job, JobKind, JobState, Priority, split_count
from kernelcup.tables import JobRow, LeaderboardRow, TaskVersionRow
from kernelcup_harness.protocol import Mode

_CLAIMS_LOCK = 0x6B6371  # "kcq", to keep this lock apart from others
ORDER = (JobRow.priority, JobRow.turn, JobRow.id)


def claim(
    session: Session,
    *,
    owner: str,
    until: datetime,
    devices: Sequence[str],
    now: datetime,
    up_to_submission: int | None = None,
    but: Sequence[JobKind] = (),
    only: Priority | None = None,
    board_id: int | None = None,
) -> Lease | None:
    """Claim the first job in the queues of the devices, None if there is none.

    Jobs of the kinds ``but`` wait, and all that are not of the class ``only`` or of the leaderboard ``board_id``.
    So do jobs that would meet hidden cases beside another job of their user (:func:`waits_for_own`).
    """
    if session.get_bind().dialect.name == "postgresql":
        # Two that claim at the same time would not see what the other one starts.
        session.execute(select(func.pg_advisory_xact_lock(_CLAIMS_LOCK)))
    for device in _by_turn(session, devices, up_to_submission):
        first = (
            _first(session, device, up_to_submission, but, only, board_id)
            .with_for_update(skip_locked=True)  # SQLite ignores this; it has only one writer anyway
            .scalar_subquery()  # with `=`: PostgreSQL may run an IN more than once and lock more rows
        )
        claimed = (
            update(JobRow)
            .where(JobRow.id == first)
            .values(
                state=JobState.RUNNING.value,
                lease_owner=owner,
                lease_token=secrets.token_hex(16),
                lease_until=until,
                started_at=now,
                reason="",
            )
            .returning(JobRow)
        )
        row = session.execute(claimed, execution_options=NO_SYNC).scalar_one_or_none()
        if row is not None:
            return lease_of(row)
    return None


def boards_in_turn(
    session: Session,
    *,
    device: str,
    up_to_submission: int | None = None,
    but: Sequence[JobKind] = (),
    prefer: Priority | None = None,
) -> tuple[Priority | None, dict[int, float]]:
    """Return the class of the queue whose turn it is, and the weights of the leaderboards with jobs in it by their ids.

    That is ``prefer`` if one of its jobs waits, else the first class in which one does.
    """
    waiting = _startable(session, device, up_to_submission, but)
    first = select(JobRow.priority).where(*waiting).order_by(*ORDER).limit(1)
    preferred = first.where(JobRow.priority == prefer) if prefer is not None else None
    found = None if preferred is None else session.execute(preferred).scalar_one_or_none()
    found = session.execute(first).scalar_one_or_none() if found is None else found
    if found is None:
        return None, {}
    boards = select(JobRow.leaderboard_id).where(*waiting, JobRow.priority == found).distinct().subquery()
    query = select(boards.c.leaderboard_id, LeaderboardRow.share).join(
        LeaderboardRow, LeaderboardRow.id == boards.c.leaderboard_id
    )
    return Priority(found), {row.leaderboard_id: row.share for row in session.execute(query)}


def has_waiting(session: Session, *, device: str, up_to_submission: int | None = None) -> bool:
    """Return whether a job waits for a device."""
    query = select(JobRow.id).where(*_waiting(device, up_to_submission)).limit(1)
    return session.execute(query).first() is not None


def waits_for_own(session: Session, job: Job) -> bool:
    """Return whether a waiting job may not start before another job of its user has ended."""
    query = select(JobRow.id).where(JobRow.id == job.id, *_beside_own(session, job.device))
    return session.execute(query).first() is None


def _beside_own(session: Session, device: str) -> list[ColumnElement[bool]]:
    """Return the conditions by which no hidden case is called on a host where another job of the same user runs.

    Which machine will judge a job is not known yet: devices that no machine has together are on different hosts.
    """
    near = machines.models_beside(session, device)
    query = select(JobRow.user_id, JobRow.device, _meets_hidden()).where(RUNNING)
    running = [row for row in session.execute(query) if not near or split_count(row[1])[0] in near]
    users = {user_id for user_id, _, _ in running}
    alone = {user_id for user_id, _, is_hidden in running if is_hidden}
    return (
        [JobRow.user_id.not_in(alone), or_(JobRow.user_id.not_in(users), ~_meets_hidden())] if users else []
    )


def _meets_hidden() -> ColumnElement[bool]:
    """Return whether a job calls hidden cases: its task has some, and it ranks."""
    body = TaskVersionRow.body
    some = or_(*(body[name].as_string() != "[]" for name in ("hidden_tests", "hidden_benchmarks")))
    has_some = select(TaskVersionRow.hash).where(TaskVersionRow.hash == JobRow.task_hash, some).exists()
    return and_(JobRow.mode == Mode.LEADERBOARD.value, has_some)


def _first(
    session: Session,
    device: str,
    up_to_submission: int | None,
    but: Sequence[JobKind],
    only: Priority | None,
    board_id: int | None,
) -> Select[int]:
    waiting = _startable(session, device, up_to_submission, but)
    if only is not None:
        waiting.append(JobRow.priority == int(only))
    if board_id is not None:
        waiting.append(JobRow.leaderboard_id == board_id)
    return select(JobRow.id).where(*waiting).order_by(*ORDER).limit(1)


def _startable(
    session: Session, device: str, up_to_submission: int | None, but: Sequence[JobKind]
) -> list[ColumnElement[bool]]:
    waiting = [*_waiting(device, up_to_submission), *_beside_own(session, device)]
    ranked = JobRow.mode == Mode.LEADERBOARD.value
    for is_it, boards in (
        (ranked, [kind.board_id for kind in but if kind.is_ranked]),
        (~ranked, [kind.board_id for kind in but if not kind.is_ranked]),
    ):
        if boards:
            waiting.append(or_(~is_it, JobRow.leaderboard_id.not_in(boards)))
    return waiting


def _waiting(device: str, up_to_submission: int | None) -> list[ColumnElement[bool]]:
    waiting = [QUEUED, JobRow.device == device]
    return waiting if up_to_submission is None else [*waiting, JobRow.submission_id <= up_to_submission]


def _by_turn(session: Session, devices: Sequence[str], up_to_submission: int | None) -> list[str]:
    """Return the devices sorted by their first jobs. The index is ordered only within each device."""
    if len(devices) < 2:
        return list(devices)
    heads = []
    for device in devices:
        places = select(JobRow.priority, JobRow.turn, JobRow.id).order_by(*ORDER).limit(1)
        head = session.execute(places.where(*_waiting(device, up_to_submission))).first()
        if head is not None:
            heads.append((tuple(head), device))
    return [device for _, device in sorted(heads)]
