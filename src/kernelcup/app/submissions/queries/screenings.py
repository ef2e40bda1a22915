"""Findings of a second opinion in submissions."""

from __future__ import annotations

from sqlalchemy import insert as insert_into
from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelcup.engine import database
from kernelcup.screen.findings import Remark, Screening
from kernelcup.tables import ScreeningFindingRow, ScreeningRow, table_of


def insert_if_absent(session: Session, submission_id: int, screening: Screening) -> None:
    """Store the screening of a submission, unless another of its jobs has done so."""
    is_new = database.insert_if_absent(
        session,
        ScreeningRow,
        submission_id=submission_id,
        rules_version=screening.rules_version,
        left_out=screening.left_out,
    )
    if not is_new or not screening.findings:
        return
    found = [
        {
            "submission_id": submission_id,
            "position": position,
            "tag": finding.tag,
            "line_number": finding.line,
            "column_number": finding.column,
            "source": finding.source,
            "explanation": finding.explanation,
        }
        for position, finding in enumerate(screening.findings)
    ]
    session.execute(_INSERT_FINDINGS, found)


_INSERT_FINDINGS = insert_into(table_of(ScreeningFindingRow))


def find(session: Session, submission_id: int) -> Screening | None:
    """Return the screening of a submission, None if it was not screened."""
    row = session.get(ScreeningRow, submission_id)
    if row is None:
        return None
    query = (
        select(ScreeningFindingRow)
        .where(ScreeningFindingRow.submission_id == submission_id)
        .order_by(ScreeningFindingRow.position)
    )
    findings = tuple(_finding(each) for each in session.scalars(query))
    return Screening(rules_version=row.rules_version, findings=findings, left_out=row.left_out)


def _finding(row: ScreeningFindingRow) -> Remark:
    return Remark(
        tag=row.tag,
        line=row.line_number,
        column=row.column_number,
        source=row.source,
        explanation=row.explanation,
    )
