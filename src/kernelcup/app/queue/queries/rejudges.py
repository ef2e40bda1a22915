"""Jobs that are to be judged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, select, update
from sqlalchemy.orm import Session

from kernelcup.app.queue.queries import jobs
from kernelcup.app.results.queries import ranking_query
from kernelcup.app.results.queries.ruling import CURRENT
from kernelcup.domain import JobState, Priority
from kernelcup.tables import BestRow, JobRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A job, and the task version that it was judged against."""

    job_id: int
    submission_id: int
    user_id: int
    device: str
    mode: Mode
    state: JobState
    task_hash: str | None
    """The task version of the run that counts; None if there is none."""
    is_best: bool
    """Whether its run is its user's best."""


def of_submission(session: Session, submission_id: int) -> list[Candidate]:
    """Return a submission's jobs."""
    return _load(session, _candidates(JobRow.submission_id == submission_id))


def of_board(
    session: Session, board_id: int, *, device: str | None = None, only_best: bool = False
) -> list[Candidate]:
    """Return a leaderboard's ranked jobs, optionally of one device, or only those that are their user's best.

    The bests include those from before the task changed.
    """
    query = _candidates(
        SubmissionRow.leaderboard_id == board_id, SubmissionRow.mode == Mode.LEADERBOARD.value
    )
    if device is not None:
        query = query.where(JobRow.device == device)
    if only_best:
        stood = ranking_query.bests(session, board_id, every_version=True).subquery()
        query = query.where(RunRow.id.in_(select(stood.c.run_id)))
    return _load(session, query)


def requeue(
    session: Session, found: Sequence[Candidate], *, task_hash: str, reason: str, now: datetime
) -> list[Candidate]:
    """Return finished jobs to the queue, and return those that were requeued.

    Each gets a new attempt, from which its retries are counted again.
    """
    done = _lock(session, [each.job_id for each in found])
    chosen = [each for each in found if each.job_id in done]
    if not chosen:
        return []
    turns = _turns(session, chosen)
    statement = (
        update(JobRow)
        .where(JobRow.id == bindparam("job"))
        .values(
            state=JobState.QUEUED.value,
            attempt=JobRow.attempt + 1,
            first_attempt=JobRow.attempt + 1,
            lost=0,
            priority=Priority.REJUDGE,
            turn=bindparam("its_turn"),
            task_hash=task_hash,
            reason=reason,
            queued_at=now,
        )
    )
    values = [{"job": each.job_id, "its_turn": turns[each.job_id]} for each in chosen]
    # The table instead of the mapped class, whose bulk updates support only primary keys.
    session.connection().execute(statement, values)
    session.expire_all()
    return chosen


def _candidates(*wanted: ColumnElement[bool]) -> Select[JobRow, str | None, int | None]:
    return (
        select(JobRow, RunRow.task_hash, BestRow.run_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .outerjoin(RunRow, and_(RunRow.job_id == JobRow.id, CURRENT))
        .outerjoin(BestRow, BestRow.run_id == RunRow.id)
        .where(*wanted)
        .order_by(JobRow.id)
    )


def _load(session: Session, query: Select[JobRow, str | None, int | None]) -> list[Candidate]:
    return [
        Candidate(
            job_id=row.id,
            submission_id=row.submission_id,
            user_id=row.user_id,
            device=row.device,
            mode=Mode(row.mode),
            state=JobState(row.state),
            task_hash=task_hash,
            is_best=best is not None,
        )
        for row, task_hash, best in session.execute(query)
    ]


def _lock(session: Session, job_ids: Sequence[int]) -> set[int]:
    locked: set[int] = set()
    for start in range(0, len(job_ids), 500):
        some = job_ids[start : start + 500]
        done = select(JobRow.id).where(JobRow.id.in_(some), JobRow.state == JobState.DONE.value)
        locked.update(session.scalars(done.order_by(JobRow.id).with_for_update()))
    return locked


def _turns(session: Session, chosen: Sequence[Candidate]) -> dict[int, int]:
    """Return each job's turn: after its user's last waiting job, but not before the lowest waiting turn."""
    lowest = {
        device: jobs.lowest_turn(session, device=device, priority=Priority.REJUDGE)
        for device in {each.device for each in chosen}
    }
    waiting = (
        select(JobRow.user_id, JobRow.device, func.max(JobRow.turn))
        .where(jobs.QUEUED, JobRow.priority == Priority.REJUDGE, JobRow.device.in_(lowest))
        .group_by(JobRow.user_id, JobRow.device)
    )
    following = {(user, device): last + 1 for user, device, last in session.execute(waiting)}
    turns = {}
    for each in chosen:
        key = (each.user_id, each.device)
        turns[each.job_id] = max(lowest[each.device], following.get(key, 0))
        following[key] = turns[each.job_id] + 1
    return turns
