"""One run, for whoever may see it."""

from __future__ import annotations

from kernelcup.domain import Actor, Run
from kernelcup.errors import NotFound
from kernelcup.services import access
from kernelcup.services.boards import find_board
from kernelcup.services.submissions import show_submission
from kernelcup.storage import jobs, runs, submissions
from kernelcup.storage.database import Database


def show_run(db: Database, run_id: int, *, viewer: Actor) -> Run:
    """Return a run with what the viewer may see of its report.

    A run that no longer counts, such as one that was judged again, is shown to those who manage
    the leaderboard. Raise ``NotFound`` for others and where there is none.
    """
    with db.read() as session:
        run = runs.find(session, run_id)
        job = None if run is None else jobs.find(session, run.job_id)
        submission = None if job is None else submissions.find(session, job.submission_id)
        if run is None or submission is None:
            raise _missing(run_id)
        board = find_board(session, submission.leaderboard)
        sees_board = access.sees_board(session, viewer, board)
    if not sees_board:
        raise _missing(run_id)
    if access.manages_board(viewer, board):
        return run
    view = show_submission(db, submission.id, viewer=viewer)
    for job_view in view.jobs:
        if job_view.run is not None and job_view.run.id == run_id:
            return job_view.run
    raise _missing(run_id)


def _missing(run_id: int) -> NotFound:
    return NotFound(f"There is no run {run_id}.")
