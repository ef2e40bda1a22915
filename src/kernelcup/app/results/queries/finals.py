"""Finals, their duels, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, func, select, update
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.ruling import CURRENT
from kernelcup.domain import OPEN, JobState, Meeting
from kernelcup.engine.rows import made_of
from kernelcup.tables import FinalDuelRow, FinalRow, JobRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import DuelResult, Mode, Verdict, from_json, to_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Finalist:
    """A submission of a final, as it stood in the standings when the final began."""

    submission_id: int
    rank: int
    score_s: float
    speedup: float | None = None
    low_s: float | None
    """Ends of the score's 95 % interval, None where nothing is known about it."""
    high_s: float | None
    in_turns: bool
    """Whether it can be measured in turns with another; calls that go by the wall clock cannot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """The place of a submission in the official order."""

    submission_id: int
    place: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a final has decided."""

    places: list[Placed]
    """In the official order."""
    meetings: list[Meeting]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFinal:
    """A final."""

    id: int
    leaderboard_id: int
    device: str
    contestants: list[Finalist]
    error: float
    started_by: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Outcome | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A duel of a final."""

    first_id: int
    second_id: int
    comparison_id: int
    """The submission that stands for it in the queue."""
    state: JobState
    verdict: Verdict | None
    """None if it has not ended, or was cancelled."""
    duel: DuelResult | None


def insert(
    session: Session,
    *,
    board_id: int,
    device: str,
    contestants: Sequence[Finalist],
    error: float,
    started_by: str,
    now: datetime,
) -> int:
    """Store a new final and return its number."""
    row = FinalRow(
        leaderboard_id=board_id,
        device=device,
        contestants=to_json(contestants),
        error=error,
        started_by=started_by,
        started_at=now,
    )
    session.add(row)
    session.flush()
    return row.id


def newest(session: Session, *, board_id: int, device: str) -> StoredFinal | None:
    """Return the newest final of one (leaderboard, device), None if there was none."""
    mine = (FinalRow.leaderboard_id == board_id, FinalRow.device == device)
    row = session.scalars(select(FinalRow).where(*mine).order_by(FinalRow.id.desc()).limit(1)).first()
    return None if row is None else _final(row)


def find(session: Session, final_id: int) -> StoredFinal:
    return _final(session.scalars(select(FinalRow).where(FinalRow.id == final_id)).one())


def lock(session: Session, final_id: int) -> StoredFinal:
    """Return a final, and exclude other decisions about it until the transaction ends."""
    query = select(FinalRow).where(FinalRow.id == final_id).with_for_update()
    return _final(session.scalars(query.execution_options(populate_existing=True)).one())


def end(session: Session, final_id: int, outcome: Outcome, now: datetime) -> None:
    """Store the outcome of a final."""
    values = {"outcome": to_json(outcome), "ended_at": now}
    session.execute(update(FinalRow).where(FinalRow.id == final_id).values(**values))


def insert_duel(
    session: Session, final_id: int, *, job_id: int, first_id: int, second_id: int, error: float
) -> None:
    """Mark a job as a duel of a final, in the transaction that creates it."""
    pair = {"first_id": first_id, "second_id": second_id}
    session.add(FinalDuelRow(job_id=job_id, final_id=final_id, error=error, **pair))
    session.flush()


def of_job(session: Session, job_id: int) -> tuple[int, float] | None:
    """Return the final that a job is a duel of, and the duel's error; None for other jobs."""
    row = session.get(FinalDuelRow, job_id)
    return None if row is None else (row.final_id, row.error)


def held(session: Session, final_id: int) -> list[Held]:
    """Return the duels of a final, whether they have ended or not, oldest first."""
    query: Select[Any] = (
        select(FinalDuelRow, JobRow.submission_id, JobRow.state, RunRow.verdict, RunRow.report["duel"])
        .join(JobRow, JobRow.id == FinalDuelRow.job_id)
        .outerjoin(RunRow, and_(RunRow.job_id == JobRow.id, CURRENT))
        .where(FinalDuelRow.final_id == final_id)
        .order_by(FinalDuelRow.job_id)
    )
    return [
        Held(
            first_id=row.first_id,
            second_id=row.second_id,
            comparison_id=comparison_id,
            state=JobState(state),
            verdict=None if verdict is None else Verdict(verdict),
            duel=None if duel is None else from_json(DuelResult, duel),
        )
        for row, comparison_id, state, verdict, duel in session.execute(query)
    ]


def count_unjudged(session: Session, *, board_id: int, device: str) -> int:
    """Return how many ranked jobs of one (leaderboard, device) wait or run; practice is not waited for."""
    query = (
        select(func.count())
        .select_from(JobRow)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.leaderboard_id == board_id, JobRow.device == device)
        .where(JobRow.mode == Mode.LEADERBOARD.value, JobRow.practice.is_(False))
        .where(JobRow.state.in_(OPEN))
    )
    return session.execute(query).scalar_one()


def _final(row: FinalRow) -> StoredFinal:
    return made_of(
        row,
        StoredFinal,
        contestants=from_json(list[Finalist], row.contestants, "contestants"),
        outcome=None if row.outcome is None else from_json(Outcome, row.outcome),
    )
