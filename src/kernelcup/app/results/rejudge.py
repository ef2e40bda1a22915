"""Judge submissions again, against the current version of the task.

The old result counts until the new one is stored, which then replaces it, for better or worse. A result of an
earlier version of the task has already left the standings, and the new one takes its place.
A failing machine replaces nothing. If the job is cancelled meanwhile, the old result stays. Quarantined results
are left alone, since a person decides on those.

Jobs are queued in portions, so that others can write meanwhile. If the server dies in between, the remaining
jobs stay as they were, and the same rejudge can be requested again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import find_board
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue.queries import jobs, rejudges
from kernelcup.app.results.standings import board_device
from kernelcup.app.submissions.queries import events, submissions
from kernelcup.domain import Actor, JobState, Leaderboard
from kernelcup.engine import Database, Session
from kernelcup.errors import NotFound

AT_ONCE = 500
"""The number of jobs that one transaction queues."""

_LEFT_OUT = {
    JobState.QUEUED: "not judged yet, or being judged again",
    JobState.RUNNING: "being judged now",
    JobState.HALTED: "halted",
    JobState.CANCELLED: "cancelled",
    JobState.QUARANTINED: "quarantined",
    JobState.REJECTED: "rejected in a review",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RejudgePlan:
    """The extent of a rejudge or of its dry run."""

    submissions: int
    jobs: int
    by_device: Mapping[str, int]
    """The number of jobs on each device."""
    other_version: int
    """The number of jobs that were judged against another version of the task."""
    standing: int
    """The number of jobs whose result is its user's place in the ranking, so that the ranking may change."""
    estimated_gpu_s: float | None
    """From the duration of recent similar jobs; None if there were none of some kind."""
    left_out: Mapping[str, int]
    """The number of jobs that are not judged again, by reason."""
    dry_run: bool


DryRun = Annotated[bool, Given(options=("--dry-run",), help="Show the plan without carrying it out.")]


@operation("POST", "/submissions/{submission_id}/rejudge", subject="administration")
def rejudge_submission(
    db: Database,
    actor: Actor,
    submission_id: Annotated[int, Given(least=1, help="Number of the submission.")],
    *,
    now: datetime,
    dry_run: DryRun = False,
) -> RejudgePlan:
    """Judge one submission again, in its mode, on all its devices.

    Raises:
        NotFound: The submission does not exist for the actor.
        SignInNeeded, Forbidden, ScopeMissing: The actor does not manage its leaderboard.
    """
    with db.read() as session:
        submission = submissions.find(session, submission_id)
        board = None if submission is None else find_board(session, submission.leaderboard)
        if board is None or not access.sees_board(session, actor, board):
            raise NotFound(f"There is no submission {submission_id}.")
        access.check_manages_board(session, actor, board)
        found = rejudges.of_submission(session, submission_id)
    detail = {"submission": submission_id}
    return _rejudge(db, actor, board, found, "submission.rejudge", detail, now=now, dry_run=dry_run)


@operation("POST", "/leaderboards/{name}/rejudge", subject="administration", is_slow=True)
def rejudge_board(
    db: Database,
    actor: Actor,
    board: Board,
    *,
    device: Annotated[str | None, Given(help="Judge only jobs on this device.", longest=100)] = None,
    only_best: Annotated[
        bool,
        Given(
            help="Judge only results that are their user's place in the ranking, or were before the task or the clock "
            "changed."
        ),
    ] = False,
    now: datetime,
    dry_run: DryRun = False,
) -> RejudgePlan:
    """Judge a leaderboard's submissions again; old results count until new ones are ready.

    Raises:
        NotFound: The leaderboard does not exist for the actor.
        UnknownDevice: The leaderboard does not have that device.
        SignInNeeded, Forbidden, ScopeMissing: The actor does not manage it.
    """
    with db.read() as session:
        found = find_board(session, board)
        access.check_manages_board(session, actor, found)
        name = None if device is None else board_device(found, device)
        chosen = rejudges.of_board(session, found.id, device=name, only_best=only_best)
    detail = {"device": name, "only_best": only_best}
    return _rejudge(db, actor, found, chosen, "board.rejudge", detail, now=now, dry_run=dry_run)


def _rejudge(
    db: Database,
    actor: Actor,
    board: Leaderboard,
    found: Sequence[rejudges.Candidate],
    action: str,
    detail: Mapping[str, object],
    *,
    now: datetime,
    dry_run: bool,
) -> RejudgePlan:
    chosen = [each for each in found if each.state is JobState.DONE]
    if not dry_run:
        with db.write(durable=True) as session:
            told = {
                **detail,
                "submissions": len({each.submission_id for each in chosen}),
                "jobs": len(chosen),
            }
            audit_log.record(session, actor, action, f"board:{board.name}", told, now)
        reason = f"judged again at the request of {actor.name}"
        parts = [chosen[start : start + AT_ONCE] for start in range(0, len(chosen), AT_ONCE)]
        chosen = [each for part in parts for each in _requeue(db, board, part, reason=reason, now=now)]
    with db.read() as session:
        return _plan(session, board, found, chosen, dry_run=dry_run)


def _requeue(
    db: Database, board: Leaderboard, part: Sequence[rejudges.Candidate], *, reason: str, now: datetime
) -> list[rejudges.Candidate]:
    with db.write(durable=True) as session:
        task_hash = find_board(session, board.name).task_hash  # the current version
        done = rejudges.requeue(session, part, task_hash=task_hash, reason=reason, now=now)
        pairs = [(each.submission_id, each.job_id) for each in done]
        events.record_many(session, pairs, "rejudging", {"reason": reason}, now)
        return done


def _plan(
    session: Session,
    board: Leaderboard,
    found: Sequence[rejudges.Candidate],
    chosen: Sequence[rejudges.Candidate],
    *,
    dry_run: bool,
) -> RejudgePlan:
    left = Counter(_LEFT_OUT[each.state] for each in found if each.state in _LEFT_OUT)
    return RejudgePlan(
        submissions=len({each.submission_id for each in chosen}),
        jobs=len(chosen),
        by_device=dict(sorted(Counter(each.device for each in chosen).items())),
        other_version=sum(each.task_hash != board.task_hash for each in chosen),
        standing=sum(each.is_best for each in chosen),
        estimated_gpu_s=_estimate(session, chosen),
        left_out=dict(sorted(left.items())),
        dry_run=dry_run,
    )


def _estimate(session: Session, chosen: Sequence[rejudges.Candidate]) -> float | None:
    pace = {device: jobs.mean_durations(session, device) for device in {each.device for each in chosen}}
    kinds = Counter((each.device, each.mode) for each in chosen)
    if any(mode not in pace[device] for device, mode in kinds):
        return None
    return sum(pace[device][mode] * count for (device, mode), count in kinds.items())
