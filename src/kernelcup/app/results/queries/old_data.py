"""Data that admins delete by age: reports, events, the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, exists, func, select
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.runs import beginning
from kernelcup.domain import JobState
from kernelcup.tables import (
    AuditRow,
    BestRow,
    EventRow,
    FinalDuelRow,
    FrozenBestRow,
    JobRow,
    RecordRow,
    ReviewRow,
    RunRow,
)
from kernelcup_harness.protocol import RunReport, from_json, to_json

TABLES: dict[str, Any] = {"reports": RunRow, "events": EventRow, "log": AuditRow}


def ids(session: Session, kind: str, *, before: datetime, after_id: int, limit: int) -> list[int]:
    """Return what can be deleted of a table, by id."""
    key = TABLES[kind].id
    return list(session.scalars(_old(kind, before).where(key > after_id).order_by(key).limit(limit)))


def remove(session: Session, kind: str, chosen: Sequence[int]) -> None:
    """Delete events or entries of the log; of reports all but what is kept of a large one."""
    if kind != "reports":
        session.execute(delete(TABLES[kind]).where(TABLES[kind].id.in_(chosen)))
        return
    for row in session.scalars(select(RunRow).where(RunRow.id.in_(chosen))):
        row.report = to_json(beginning(from_json(RunReport, row.report)))


def _old(kind: str, before: datetime) -> Select[int]:
    if kind == "log":
        return select(AuditRow.id).where(AuditRow.at < before)
    if kind == "events":
        is_open = JobRow.state.in_([JobState.QUEUED.value, JobState.RUNNING.value])
        goes_on = exists().where(JobRow.submission_id == EventRow.submission_id, is_open)
        return select(EventRow.id).where(EventRow.at < before, ~goes_on)
    evidence = (select(each.run_id) for each in (BestRow, FrozenBestRow, RecordRow, ReviewRow))
    return select(RunRow.id).where(
        RunRow.finished_at < before,
        RunRow.job_id.not_in(select(FinalDuelRow.job_id)),
        *(RunRow.id.not_in(runs) for runs in evidence),
        func.json_array_length(RunRow.report["stages"]) > 0,
    )
