"""Show one run, and what the runs of leaderboards have cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from kernelcup.app import access
from kernelcup.app.boards.boards import find_board
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results.queries import run_costs, runs
from kernelcup.app.submissions.queries import submissions
from kernelcup.app.submissions.redaction import machine_of
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import Actor, Leaderboard, Run
from kernelcup.engine import Database
from kernelcup.errors import NotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRun:
    """A run with its report as the viewer may see it, and its submission."""

    run: Run
    submission_id: int
    leaderboard: str
    device: str


def show_run(db: Database, run_id: int, *, viewer: Actor) -> ShownRun:
    """Return a run with its report as the viewer may see it.

    A run that no longer counts, for example because it was judged again, is shown only to managers of the
    leaderboard. Raise ``NotFound`` for others, and if there is no run with this id.
    """
    with db.read() as session:
        run = runs.find(session, run_id)
        job = None if run is None else jobs.find(session, run.job_id)
        submission = None if job is None else submissions.find(session, job.submission_id)
        if run is None or job is None or submission is None:
            raise _missing(run_id)
        board = find_board(session, submission.leaderboard)
        sees_board = access.sees_board(session, viewer, board)
    if not sees_board:
        raise _missing(run_id)
    if access.inspects_board(viewer, board):
        run = dataclasses.replace(run, machine=machine_of(run, viewer))
    else:
        jobs_seen = show_submission(db, submission.id, viewer=viewer).jobs
        run = next((each.counted for each in jobs_seen if each.run == run_id), None)
        if run is None:
            raise _missing(run_id)
    return ShownRun(run=run, submission_id=submission.id, leaderboard=board.name, device=job.device)


def _missing(run_id: int) -> NotFound:
    return NotFound(f"There is no run {run_id}.")


def costs(db: Database, boards: Iterable[Leaderboard], actor: Actor) -> dict[str, float]:
    """Return what the runs of those leaderboards cost that the actor manages, by their names."""
    with db.read() as session:
        mine = [each for each in boards if access.manages_board(actor, each)]
        return {each.name: run_costs.of_board(session, each.id) for each in mine}
