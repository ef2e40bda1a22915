"""Jobs that measure two submissions in turns."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert as insert_into
from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelcup.tables import ComparisonRow, JobRow, table_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """The two submissions; None for one that has been deleted."""

    first_id: int | None
    second_id: int | None


def insert(session: Session, *, job_id: int, first_id: int, second_id: int) -> None:
    """Mark a job as a comparison, in the transaction that creates it."""
    values = {"job_id": job_id, "first_id": first_id, "second_id": second_id}
    session.execute(insert_into(table_of(ComparisonRow)).values(**values))


def find(session: Session, job_id: int) -> Pair | None:
    """Return the pair of submissions that a job compares, None for a job that is not a comparison."""
    row = session.get(ComparisonRow, job_id)
    return None if row is None else Pair(first_id=row.first_id, second_id=row.second_id)


def of_submission(session: Session, submission_id: int) -> tuple[int, Pair] | None:
    """Return the job and the pair of a submission that was made for a comparison, None for others."""
    query = (
        select(ComparisonRow)
        .join(JobRow, JobRow.id == ComparisonRow.job_id)
        .where(JobRow.submission_id == submission_id)
    )
    row = session.scalars(query).first()
    return None if row is None else (row.job_id, Pair(first_id=row.first_id, second_id=row.second_id))
