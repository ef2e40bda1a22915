"""Context for a result: the leading submission, and why the result ranks as it does."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup.app.boards.queries import boards
from kernelcup.app.results import standings
from kernelcup.app.results.facts import read_public_times
from kernelcup.app.results.queries import ranking_query
from kernelcup.app.results.queries import standings as ranking
from kernelcup.app.submissions.submissions import SubmissionView
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Run
from kernelcup.engine import Database, Session
from kernelcup.reporting.insights import Best
from kernelcup.reporting.phrases import remark


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
    found = {}
    with db.read() as session:
        board = boards.find(session, view.submission.leaderboard)
        if board is None:
            return {}
        for each in shown:
            assert each.run is not None
            best = _best(session, board, each.job.device, each.run, viewer)
            if best is not None and best.submission == view.submission.id:
                best = None  # comparing a submission with itself shows nothing
            found[each.job.id] = Beside(best=best, remark=remark(each.job, each.run, each.ruling, board))
    return found


def _best(session: Session, board: Leaderboard, device: str, run: Run, viewer: Actor) -> Best | None:
    """Return the leading submission of the ranking of a run's class as the viewer sees it, None if there is none.

    It has times only for public cases, and only if it was judged against the same task version.
    """
    if device not in board.devices:
        return None  # it was removed meanwhile
    is_frozen = standings.shows_copy(session, board, viewer)
    first = ranking.entries(
        session,
        board_id=board.id,
        device=device,
        host_class=ranking_query.class_of(session, run.host_class, device),
        frozen=is_frozen,
        limit=1,
    )
    if not first:
        return None
    entry = first[0].entry
    times = read_public_times(session, first[0].run_id, run.task_hash)
    return Best(submission=entry.submission_id, score_s=entry.score_s, cases_ns=times)
