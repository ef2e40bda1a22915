"""Look at submissions, cancel and delete them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup.domain import OPERATOR, Actor, Job, JobState, Role, Run, Submission
from kernelcup.errors import Forbidden, NotFound
from kernelcup.screen import Screening
from kernelcup.services import access
from kernelcup.services.boards import find_board
from kernelcup.services.reports import redact
from kernelcup.storage import jobs, runs, screenings, submissions, tasks, users
from kernelcup.storage.database import Database

ENDED = (JobState.DONE, JobState.CANCELLED, JobState.QUARANTINED)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobView:
    """A job and what has come of it so far."""

    job: Job
    position: int | None
    """Place in the queue of its device; None if it does not wait."""
    run: Run | None
    """The run that counts, with what the viewer may see of its report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionView:
    """A submission and the state of its jobs."""

    submission: Submission
    jobs: tuple[JobView, ...]

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return all(view.job.state in ENDED for view in self.jobs)


def show_submission(db: Database, submission_id: int, *, viewer: Actor = OPERATOR) -> SubmissionView:
    """Return a submission with its results.

    Args:
        viewer: Who looks. Who manages the leaderboard sees hidden cases.
    """
    with db.read() as session:
        submission = _find(session, submission_id)
        board = find_board(session, submission.leaderboard)
        access.check_sees_board(session, viewer, board)
        found = jobs.of_submission(session, submission_id)
        done = runs.counted(session, [job.id for job in found])
        positions = {job.id: jobs.position(session, job) for job in found}
    sees_all = access.manages_board(viewer, board)
    views = (
        JobView(job=job, position=positions[job.id], run=_redacted(done.get(job.id), sees_all=sees_all))
        for job in found
    )
    return SubmissionView(submission=submission, jobs=tuple(views))


def get_code(db: Database, submission_id: int, *, viewer: Actor = OPERATOR) -> str:
    """Return a submission's text to its author. Raise ``Forbidden`` for others."""
    with db.read() as session:
        _check_author(_find(session, submission_id), viewer)
        return submissions.code(session, submission_id)


def screening_of(db: Database, submission_id: int) -> Screening | None:
    """Return what the static screen found, None for a submission from before it was there."""
    with db.read() as session:
        _find(session, submission_id)
        return screenings.find(session, submission_id)


def list_submissions(
    db: Database,
    *,
    user: str | None = None,
    board: str | None = None,
    tag: str | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> list[Submission]:
    """Return a page of submissions, the newest first. ``tag`` is one of the static screen."""
    with db.read() as session:
        person = None if user is None else users.find(session, user)
        if user is not None and person is None:
            return []
        return submissions.newest(
            session,
            user_id=None if person is None else person[0],
            board_id=None if board is None else find_board(session, board).id,
            tag=tag,
            before_id=before_id,
            limit=limit,
        )


def cancel_submission(db: Database, submission_id: int, *, by: Actor, now: datetime) -> int:
    """Cancel the jobs that wait or run, and return how many."""
    reason = "cancelled by the operator" if by is OPERATOR else f"cancelled by {by.name}"
    with db.write(durable=True) as session:
        _check_author(_find(session, submission_id), by)
        found = jobs.of_submission(session, submission_id)
        return sum(jobs.cancel(session, job.id, now=now, reason=reason) for job in found)


def delete_submission(db: Database, submission_id: int, *, by: Actor) -> None:
    """Delete a submission for good; the user's next best takes its place in the standings."""
    with db.write(durable=True) as session:
        submission = _find(session, submission_id)
        _check_author(submission, by)
        task_hashes = {job.task_hash for job in jobs.of_submission(session, submission_id)}
        submissions.delete_submission(session, submission_id)
        submissions.delete_unused_code(session, code_hash=submission.code_hash)
        for task_hash in task_hashes:
            tasks.delete_unused(session, task_hash)
        person = users.find(session, submission.user)
        assert person is not None
        runs.offer_remaining(
            session,
            board_id=find_board(session, submission.leaderboard).id,
            user_id=person[0],
            devices=submission.devices,
        )


def _find(session: Session, submission_id: int) -> Submission:
    submission = submissions.find(session, submission_id)
    if submission is None:
        raise NotFound(f"There is no submission {submission_id}.")
    return submission


def _check_author(submission: Submission, actor: Actor) -> None:
    if actor.role is not Role.ADMIN and actor.user_id != submission.user_id:
        raise Forbidden(f"Submission {submission.id} is {submission.user}'s.")


def _redacted(run: Run | None, *, sees_all: bool) -> Run | None:
    if run is None:
        return None
    return dataclasses.replace(run, report=redact(run.report, viewer_is_creator=sees_all))
