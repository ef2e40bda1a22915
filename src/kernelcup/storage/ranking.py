"""Standings page by page, live or frozen, and how they came about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from kernelcup.domain import Run
from kernelcup.scoring import Entry
from kernelcup.storage.tables import BestRow, FrozenBestRow, RecordRow, RunRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, RunReport, TrustLevel, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """An entry and whose it is."""

    user_id: int
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """That a user's best got better."""

    id: int
    user_id: int
    user: str
    submission_id: int
    score_s: float
    at: datetime


def entries(
    session: Session,
    *,
    board_id: int,
    device: str,
    frozen: bool = False,
    user_id: int | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[Ranked]:
    """Return the bests of one (leaderboard, device), or one user's, the fastest first."""
    best = FrozenBestRow if frozen else BestRow
    query = (
        select(best.user_id, best.score_s, best.submission_id, UserRow.name)
        .add_columns(SubmissionRow.created_at, SubmissionRow.file_name, RunRow.trust, RunRow.comparable)
        .join(UserRow, UserRow.id == best.user_id)
        .join(SubmissionRow, SubmissionRow.id == best.submission_id)
        .join(RunRow, RunRow.id == best.run_id)
        .where(best.leaderboard_id == board_id, best.device == device)
        .order_by(best.score_s, best.submission_id)
        .limit(limit)
        .offset(offset)
    )
    if user_id is not None:
        query = query.where(best.user_id == user_id)
    return [
        Ranked(
            user_id=row.user_id,
            entry=Entry(
                user=row.name,
                score_s=row.score_s,
                submission_id=row.submission_id,
                submitted_at=row.created_at,
                file_name=row.file_name,
                trust=row.trust,
                comparable=row.comparable,
            ),
        )
        for row in session.execute(query)
    ]


def count_faster(
    session: Session,
    *,
    board_id: int,
    device: str,
    score_s: float,
    frozen: bool = False,
    without: int | None = None,
) -> int:
    """Return how many users of one (leaderboard, device) are faster than a score."""
    best = FrozenBestRow if frozen else BestRow
    faster = [best.leaderboard_id == board_id, best.device == device, best.score_s < score_s]
    if without is not None:
        faster.append(best.user_id != without)
    return session.execute(select(func.count()).select_from(best).where(*faster)).scalar_one()


def history(
    session: Session,
    *,
    board_id: int,
    device: str,
    user_id: int | None = None,
    before_id: int | None = None,
    limit: int = 100,
    until: datetime | None = None,
    always: int | None = None,
) -> list[Record]:
    """Return how the bests of one (leaderboard, device) got better, the newest first.

    Args:
        session: The transaction.
        board_id: The leaderboard.
        device: The device, as the leaderboard writes it.
        user_id: Only of this user.
        before_id: Only older than this record.
        limit: At most that many.
        until: Nothing later than this.
        always: This user's are in it, however late.
    """
    query = (
        select(RecordRow, UserRow.name)
        .join(UserRow, UserRow.id == RecordRow.user_id)
        .where(RecordRow.leaderboard_id == board_id, RecordRow.device == device)
        .order_by(RecordRow.id.desc())
        .limit(limit)
    )
    if user_id is not None:
        query = query.where(RecordRow.user_id == user_id)
    if before_id is not None:
        query = query.where(RecordRow.id < before_id)
    if until is not None:
        query = query.where(or_(RecordRow.at <= until, RecordRow.user_id == always))
    return [
        Record(
            id=row.id,
            user_id=row.user_id,
            user=name,
            submission_id=row.submission_id,
            score_s=row.score_s,
            at=row.at,
        )
        for row, name in session.execute(query)
    ]


def results(session: Session, job_ids: list[int]) -> dict[int, Run]:
    """Return the counted run of each job that has one, with no more of its report than what it is of."""
    plain = [RunRow.id, RunRow.job_id, RunRow.attempt, RunRow.task_hash, RunRow.verdict, RunRow.score_s]
    query = (
        select(*plain, RunRow.trust, RunRow.comparable, RunRow.started_at, RunRow.finished_at)
        .add_columns(RunRow.harness_hash, RunRow.machine)
        .add_columns(*(RunRow.report[key].as_string().label(f"its_{key}") for key in _KEPT))
        .where(RunRow.job_id.in_(job_ids), RunRow.counted)
    )
    return {
        row.job_id: Run(
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
            report=RunReport(
                job_id=row.its_job_id,
                mode=Mode(row.its_mode),
                backend=Backend(row.its_backend),
                harness=HarnessKind(row.its_harness),
                verdict=Verdict(row.verdict),
                trust=TrustLevel(row.trust),
                comparable=row.comparable,
            ),
        )
        for row in session.execute(query)
    }


_KEPT = ("job_id", "mode", "backend", "harness")
