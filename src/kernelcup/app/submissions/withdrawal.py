"""Cancel, resume and delete submissions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.boards.queries import boards, task_versions
from kernelcup.app.operation import SubmissionId, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results.queries import docket, frozen_standings, ruling, runs, standings
from kernelcup.app.rules.queries import limits
from kernelcup.app.submissions.queries import events, submissions
from kernelcup.app.submissions.submissions import find_visible
from kernelcup.domain import ASIDE, OPERATOR, Actor, JobState, Leaderboard, Role, Ruling, Scope, Submission
from kernelcup.engine import Database, Session
from kernelcup.errors import Forbidden, NotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancelled:
    """How many jobs were cancelled."""

    submission: int
    cancelled_jobs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted:
    """A submission was deleted, or withdrawn."""

    done: bool = True
    withdrawn: bool
    """Whether it stays in a table that is finished or frozen: with its place and time, its code for managers only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HaltedJob:
    """A job that waits for an admin."""

    submission: int
    job: int
    device: str
    reason: str


@operation("POST", "/submissions/{submission_id}/cancel", subject="submissions", personal=True)
def cancel_submission(db: Database, submission_id: SubmissionId, *, by: Actor, now: datetime) -> Cancelled:
    """Cancel the unfinished jobs of a submission; running jobs are stopped within seconds."""
    reason = "cancelled by the operator" if by is OPERATOR else f"cancelled by {by.name}"
    with db.write(durable=True) as session:
        submission, board = find_visible(session, submission_id, by)
        _check_touches(session, submission, board, by)
        found = [job.id for job in jobs.of_submission(session, submission_id)]
        count = lifecycle.cancel_jobs(session, submission_id, found, now=now, reason=reason)
        if count and by.user_id != submission.user_id:
            detail: dict[str, object] = {"user": submission.user, "jobs": count}
            audit_log.record(session, by, "submission.cancel", f"submission:{submission_id}", detail, now)
        return Cancelled(submission=submission_id, cancelled_jobs=count)


@operation("GET", "/jobs/halted", "admin halted", subject="submissions")
def list_halted(db: Database, actor: Actor) -> list[HaltedJob]:
    """List the jobs that our side lost five times, and that wait for `admin resume` or `cancel`. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.read() as session:
        return [
            HaltedJob(submission=each.submission_id, job=each.id, device=each.device, reason=each.reason)
            for each in jobs.halted(session)
        ]


@operation("POST", "/submissions/{submission_id}/resume", "admin resume", subject="submissions")
def resume(db: Database, actor: Actor, submission_id: SubmissionId, *, now: datetime) -> list[HaltedJob]:
    """Return the halted jobs of a submission to the queue, where they are next. For admins.

    Raises:
        NotFound: It has none.
    """
    found = [each for each in list_halted(db, actor) if each.submission == submission_id]
    if not found:
        raise NotFound(f"Submission {submission_id} has no halted job.")
    with db.write(durable=True) as session:
        for job in jobs.lock(session, [each.job for each in found]):
            if job.state is JobState.HALTED:
                jobs.resume(session, job)
                events.record(session, submission_id, "queued", {"reason": "resumed"}, job.id, now)
        detail = {"jobs": [each.job for each in found]}
        audit_log.record(session, actor, "submission.resume", f"submission:{submission_id}", detail, now)
    return found


@operation("DELETE", "/submissions/{submission_id}", subject="submissions", personal=True)
def delete_submission(db: Database, submission_id: SubmissionId, *, by: Actor, now: datetime) -> Deleted:
    """Delete a submission with its runs permanently; from a finished table its author withdraws it.

    The user's next best takes its place in the standings. A table that is finished or frozen loses nothing: a result
    that counts keeps its place and time there, and its code for managers. Its use of limits stays counted. While its
    result waits for a review, or was rejected by one, only managers of the leaderboard may delete it, since it is the
    evidence.
    """
    with db.write(durable=True) as session:
        submission, board = find_visible(session, submission_id, by)
        _check_touches(session, submission, board, by)
        found = jobs.lock(session, [job.id for job in jobs.of_submission(session, submission_id)])
        boards.lock(session, board.id)
        board = boards.get(session, board.id)
        frozen_standings.keep(session, board.id, now)
        submissions.find_author(session, submission.user_id, lock=True)  # what they used is counted once
        has_frozen_place = frozen_standings.holds(session, submission)
        if not access.manages_board(by, board):
            rulings = ruling.of_submission(session, submission_id)
            if not rulings.isdisjoint(ASIDE):
                raise Forbidden(f"Submission {submission_id} is under review and cannot be deleted.")
            is_placed = Ruling.COUNTS in rulings or has_frozen_place
            if is_placed and is_final(board, now):
                if submission.withdrawn_at is None:
                    submissions.withdraw(session, submission_id, now)
                    _log(session, by, "submission.withdraw", submission, now)
                return Deleted(withdrawn=True)
        limits.keep_uses(session, submission, now=now)
        _log(session, by, "submission.delete", submission, now)
        docket.keep_of_submission(session, submission_id, now)
        files = runs.report_files(session, [job.id for job in found])
        submissions.delete_submission(session, submission_id)
        submissions.delete_unused_code(session, code_hash=submission.code_hash)
        for task_hash in {job.task_hash for job in found} - {board.task_hash}:
            task_versions.delete_unused(session, task_hash)
        user_id, devices = submission.user_id, submission.devices
        runs.choose_best(session, board_id=board.id, user_id=user_id, devices=devices, now=now)
        # What had no place was not seen, and is not: readers of the freeze may not learn that it was there.
        for device in devices if has_frozen_place else ():
            frozen_standings.choose_best(session, board, device=device, user_id=user_id)
    for each in files:
        db.files.delete(each)
    return Deleted(withdrawn=False)


def is_final(board: Leaderboard, now: datetime) -> bool:
    """Return whether the table of a leaderboard is finished or frozen."""
    return any(end is not None and end < now for end in (board.deadline, board.freeze_at))


def _log(session: Session, by: Actor, action: str, submission: Submission, now: datetime) -> None:
    """Record a deletion, with the scores that go and the places that these held."""
    scores = {each: runs.scores(session, [submission.id], each) for each in submission.devices}
    held = standings.stands(session, submission_id=submission.id, board_id=submission.leaderboard_id)
    above = {each.device: standings.above(session, each) for each in held}
    gone: dict[str, dict[str, float]] = {
        "score_s": {device: found[submission.id].score_s for device, found in scores.items() if found},
        "place": {device: count + 1 for device, count in above.items()},
    }
    detail: dict[str, object] = {name: values for name, values in gone.items() if values}
    detail |= {"user": submission.user, "board": submission.leaderboard}
    audit_log.record(session, by, action, f"submission:{submission.id}", detail, now)


def _check_touches(session: Session, submission: Submission, board: Leaderboard, actor: Actor) -> None:
    """Raise unless the actor may cancel or delete a submission."""
    if actor.user_id == submission.user_id:
        access.require(actor, Scope.SUBMIT)
    elif access.manages_board(actor, board):
        access.check_manages_board(session, actor, board)
    else:
        access.require(actor, Scope.SUBMIT)
        raise Forbidden(f"Submission {submission.id} belongs to another user.")
