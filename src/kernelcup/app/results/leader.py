"""Context for a result: the leading submission, and why the result ranks as it does."""

from __future__ import annotations

from dataclasses import replace

from kernelcup.app.boards.queries import boards
from kernelcup.app.results import standings
from kernelcup.app.results.facts import read_public_times
from kernelcup.app.results.queries import ranking_query
from kernelcup.app.results.queries import standings as ranking
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Run
from kernelcup.engine import Database, Session
from kernelcup.reporting.insights import Best
from kernelcup.reporting.phrases import remark
from kernelcup.reporting.results import JobInfo, SubmissionInfo


def beside(db: Database, found: SubmissionInfo, *, viewer: Actor = OPERATOR) -> SubmissionInfo:
    """Return a submission with the leader and the remark beside each result whose report the viewer sees."""
    if not any(map(_is_whole, found.jobs)):
        return found
    with db.read() as session:
        board = boards.find(session, found.leaderboard)
        if board is None:
            return found
        jobs = tuple(_beside(session, board, found.id, each, viewer) for each in found.jobs)
    return replace(found, jobs=jobs)


def _is_whole(job: JobInfo) -> bool:
    return job.counted is not None and bool(job.counted.report.stages)


def _beside(session: Session, board: Leaderboard, number: int, job: JobInfo, viewer: Actor) -> JobInfo:
    if job.counted is None or not _is_whole(job):
        return job
    best = _best(session, board, job.device, job.counted, viewer)
    if best is not None and best.submission == number:
        best = None  # comparing a submission with itself shows nothing
    return replace(job, best=best, remark=remark(job, board))


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
