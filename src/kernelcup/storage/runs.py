"""Runs, and the best of each user."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from kernelcup.domain import Job, Run
from kernelcup.scoring import Entry
from kernelcup.storage.database import upsert
from kernelcup.storage.tables import BestRow, JobRow, RunRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import RunReport, Verdict, from_json, to_json


def insert(
    session: Session,
    *,
    job: Job,
    report: RunReport,
    score_s: float | None,
    started_at: datetime,
    finished_at: datetime,
    harness_hash: str,
    machine: str,
) -> Run:
    """Store the run that counts for a job, and let it stand for its user if it is the best."""
    row = RunRow(
        job_id=job.id,
        attempt=job.attempt,
        task_hash=job.task_hash,
        verdict=report.verdict.value,
        score_s=score_s,
        trust=report.trust.value,
        comparable=report.comparable,
        started_at=started_at,
        finished_at=finished_at,
        harness_hash=harness_hash,
        machine=machine,
        report=to_json(report),
    )
    session.add(row)
    session.flush()
    if score_s is not None:
        submission = session.get_one(SubmissionRow, job.submission_id)
        _offer_best(session, submission, device=job.device, run_id=row.id, score_s=score_s)
    return _run(row, report)


def counted(session: Session, job_ids: Sequence[int]) -> dict[int, Run]:
    """Return the counted run of each job that has one, by the job's id."""
    rows = session.scalars(select(RunRow).where(RunRow.job_id.in_(job_ids), RunRow.counted))
    return {row.job_id: _run(row, from_json(RunReport, row.report)) for row in rows}


def find(session: Session, run_id: int) -> Run | None:
    """Return one run, counted or not."""
    row = session.get(RunRow, run_id)
    return None if row is None else _run(row, from_json(RunReport, row.report))


def entries(
    session: Session, *, board_id: int, device: str, user_id: int | None = None, limit: int | None = None
) -> list[Entry]:
    """Return the best run of each user on one (leaderboard, device), or of one user, the fastest first."""
    query = (
        select(UserRow.name, BestRow.score_s, BestRow.submission_id, SubmissionRow.created_at)
        .add_columns(SubmissionRow.file_name, RunRow.trust, RunRow.comparable)
        .join(UserRow, UserRow.id == BestRow.user_id)
        .join(SubmissionRow, SubmissionRow.id == BestRow.submission_id)
        .join(RunRow, RunRow.id == BestRow.run_id)
        .where(BestRow.leaderboard_id == board_id, BestRow.device == device)
        .order_by(BestRow.score_s, BestRow.submission_id)
        .limit(limit)
    )
    if user_id is not None:
        query = query.where(BestRow.user_id == user_id)
    return [
        Entry(
            user=user,
            score_s=score_s,
            submission_id=submission_id,
            submitted_at=submitted_at,
            file_name=file_name,
            trust=trust,
            comparable=comparable,
        )
        for user, score_s, submission_id, submitted_at, file_name, trust, comparable in session.execute(query)
    ]


def count_faster(session: Session, *, board_id: int, device: str, score_s: float) -> int:
    """Return how many users of one (leaderboard, device) are faster than a score."""
    faster = [BestRow.leaderboard_id == board_id, BestRow.device == device, BestRow.score_s < score_s]
    return session.execute(select(func.count()).select_from(BestRow).where(*faster)).scalar_one()


def offer_remaining(session: Session, *, board_id: int, user_id: int, devices: Sequence[str]) -> None:
    """Find a user's best runs anew, after the submission that was the best is gone."""
    query = (
        select(SubmissionRow, JobRow.device, RunRow.id, RunRow.score_s)
        .join(JobRow, JobRow.submission_id == SubmissionRow.id)
        .join(RunRow, and_(RunRow.job_id == JobRow.id, RunRow.counted))
        .where(
            SubmissionRow.leaderboard_id == board_id,
            SubmissionRow.user_id == user_id,
            JobRow.device.in_(devices),
            RunRow.score_s.is_not(None),
        )
    )
    for submission, device, run_id, score_s in session.execute(query).all():
        assert score_s is not None
        _offer_best(session, submission, device=device, run_id=run_id, score_s=score_s)


def _offer_best(
    session: Session, submission: SubmissionRow, *, device: str, run_id: int, score_s: float
) -> None:
    offer = upsert(session, BestRow).values(
        leaderboard_id=submission.leaderboard_id,
        device=device,
        user_id=submission.user_id,
        run_id=run_id,
        submission_id=submission.id,
        score_s=score_s,
    )
    better = or_(
        offer.excluded.score_s < BestRow.score_s,
        and_(
            offer.excluded.score_s == BestRow.score_s,
            offer.excluded.submission_id < BestRow.submission_id,
        ),
    )
    kept = {name: offer.excluded[name] for name in ("run_id", "submission_id", "score_s")}
    key = ["leaderboard_id", "device", "user_id"]
    session.execute(offer.on_conflict_do_update(index_elements=key, set_=kept, where=better))


def _run(row: RunRow, report: RunReport) -> Run:
    return Run(
        id=row.id,
        job_id=row.job_id,
        attempt=row.attempt,
        task_hash=row.task_hash,
        verdict=Verdict(row.verdict),
        score_s=row.score_s,
        started_at=row.started_at,
        finished_at=row.finished_at,
        harness_hash=row.harness_hash,
        machine=row.machine,
        report=report,
    )
