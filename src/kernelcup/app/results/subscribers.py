"""A result is stored in one transaction: what it is worth is decided, and those who follow results are told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kernelcup.app.boards.queries import boards, task_versions
from kernelcup.app.machines.machines import run_facts
from kernelcup.app.queue.queries import comparisons, jobs
from kernelcup.app.results import duels, finals, news, reviews
from kernelcup.app.results.duels import Settled
from kernelcup.app.results.queries import runs
from kernelcup.app.results.stored import Stored
from kernelcup.app.submissions.queries import events, submissions
from kernelcup.domain import Job, Leaderboard, Run, Score, Submission, split_count
from kernelcup.engine import Session
from kernelcup.scoring import score as score_of
from kernelcup_harness.protocol import Mode, RunReport, Verdict


def note_pace(session: Session, stored: Stored) -> None:
    """Add the duration of a job that a machine judged to the mean of its kind."""
    run, job = stored.run, stored.job
    if run.machine and not stored.is_comparison:  # a comparison takes longer
        took_s = (run.finished_at - run.started_at).total_seconds()
        jobs.add_duration(session, device=job.device, mode=job.mode, seconds=took_s)


SUBSCRIBERS: tuple[Callable[[Session, Stored], None], ...] = (
    reviews.hold,
    finals.go_on,
    note_pace,
    news.enter,
)
"""Who is told of a result, in this order: locks are taken in it, and events appear in it."""


def store(
    session: Session,
    job: Job,
    report: RunReport,
    *,
    started_at: datetime,
    now: datetime,
    harness_hash: str,
    machine: str,
    rival: int | None = None,
) -> Run:
    """Store the result of a job that is locked, and tell all subscribers. ``rival`` was measured in turns with it."""
    is_ranked = job.mode is Mode.LEADERBOARD
    is_comparison = job.mode is Mode.BENCHMARK and comparisons.find(session, job.id) is not None
    ranking_by, judging = task_versions.judged_by(session, job.task_hash, report.harness)
    if is_ranked:
        boards.lock(session, job.leaderboard_id)
    submission, board = submissions.get(session, job.submission_id), boards.get(session, job.leaderboard_id)
    score = None if is_comparison else score_of(report, ranking_by)
    counted, is_judged = _counts(job, report), score is not None or bool(report.quarantine)
    took_s = 0.0 if is_comparison else (now - started_at).total_seconds() * split_count(job.device)[1]
    host = run_facts(session, machine, worked_s=took_s)
    ranked = score if is_ranked and judging == board.judging else None  # the task may have changed meanwhile
    duel = _settle(session, board, submission, job, ranked, report, rival, host.host_class)
    replaces = counted and job.first_attempt > 1 and runs.uncount(session, job.id)
    run = runs.insert(
        session,
        job=job,
        report=report,
        score=score,
        started_at=started_at,
        finished_at=now,
        harness_hash=harness_hash,
        machine=machine,
        **host._asdict(),
        counted=counted,
        rank_s=duel.rank_s,
        duel=duel.outcome,
        rival=duel.behind or rival,
        judging=judging if is_ranked else "",
    )
    stored = Stored(
        job=job,
        run=run,
        now=now,
        submission=submission,
        board=board,
        held=reviews.flags(session, job, report, submission, board) if counted and is_judged else None,
        replaces=replaces,
        is_comparison=is_comparison,
    )
    return _tell(session, stored, counted=counted)


def _counts(job: Job, report: RunReport) -> bool:
    """Return whether a result counts: one of a failing machine must not replace that of an earlier judgement.

    The findings of an audit are reviewed however the run ended.
    """
    return job.first_attempt == 1 or report.verdict is not Verdict.INTERNAL_ERROR or bool(report.quarantine)


def _settle(
    session: Session,
    board: Leaderboard,
    submission: Submission,
    job: Job,
    score: Score | None,
    report: RunReport,
    rival: int | None,
    host_class: str,
) -> Settled:
    if score is None or job.practice:
        return Settled()
    return duels.settle(
        session,
        board=board,
        submission=submission,
        job=job,
        score=score,
        report=report,
        rival=rival,
        host_class=host_class,
    )


def _tell(session: Session, stored: Stored, *, counted: bool) -> Run:
    run, number = stored.run, stored.job.submission_id
    finished = {"verdict": run.verdict.value, "score_s": run.score_s, "counts": counted}
    if run.score is not None and run.score.speedup is not None:
        finished["speedup"] = run.score.speedup
    events.record(session, number, "finished", finished, stored.job.id, stored.now)
    for subscriber in SUBSCRIBERS:
        subscriber(session, stored)
    events.record_end(session, number, stored.now)
    return run
