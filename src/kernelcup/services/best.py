"""Context for a result: the leading submission, and why the result ranks as it does."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup.domain import OPERATOR, Actor, Run
from kernelcup.errors import NotFound, UnknownDevice
from kernelcup.lessons import Best
from kernelcup.services import rank, visibility
from kernelcup.services.submissions import SubmissionView
from kernelcup.storage import boards, jobs, runs
from kernelcup.storage.database import Database
from kernelcup.wording import remark
from kernelcup_harness.protocol import StageName, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """The context of one job's result."""

    best: Best | None
    remark: str
    """Why it does not rank, or ranks behind a slower result; empty if it ranks by its score."""


def beside(db: Database, view: SubmissionView, *, viewer: Actor = OPERATOR) -> dict[int, Beside]:
    """Return the context of each result whose report the viewer sees, by the job's id."""
    shown = [each for each in view.jobs if each.run is not None and each.run.report.stages]
    if not shown:
        return {}
    with db.read() as session:
        board = boards.find(session, view.submission.leaderboard)
    if board is None:
        return {}
    since = visibility.hidden_since(board, viewer)
    found = {}
    for each in shown:
        assert each.run is not None
        best = best_of(db, board.name, each.job.device, task_hash=each.run.task_hash, viewer=viewer)
        if best is not None and best.submission == view.submission.id:
            best = None  # comparing a submission with itself shows nothing
        found[each.job.id] = Beside(best=best, remark=remark(each.job, each.run, board, since=since))
    return found


def best_of(
    db: Database, board: str, device: str, *, task_hash: str, viewer: Actor = OPERATOR
) -> Best | None:
    """Return the leading submission of one (leaderboard, device) as the viewer sees it, None if there is none.

    It has times only for public cases, and only if it was judged against the same task version.
    """
    try:
        first = rank.standings(db, board, device, viewer=viewer, limit=1)
    except (NotFound, UnknownDevice):
        return None  # the device or the board was removed meanwhile
    if not first:
        return None
    with db.read() as session:
        found = [job for job in jobs.of_submission(session, first[0].submission_id) if job.device == device]
        run = runs.counted(session, [job.id for job in found]).get(found[0].id) if found else None
    # A run that was stored after a freeze is not shown.
    known = run is not None and run.task_hash == task_hash and run.score_s == first[0].score_s
    return Best(
        submission=first[0].submission_id,
        score_s=first[0].score_s,
        cases_ns=_times(run) if run is not None and known else {},
    )


def _times(run: Run) -> dict[int, float]:
    stage = run.report.stage_report(StageName.RANKED)
    return {
        case.index: case.timing.score_ns
        for case in (stage.cases if stage is not None else ())
        if not case.hidden and case.timing is not None and case.verdict is Verdict.ACCEPTED
    }
