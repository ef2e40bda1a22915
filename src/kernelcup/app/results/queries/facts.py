"""The runs and codes behind the places of a ranking, and the outcomes of duels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelcup.app.events.queries import teams
from kernelcup.app.results.queries import runs
from kernelcup.app.results.queries.ruling import counts
from kernelcup.domain import DuelOutcome, Ruling
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    BestRow,
    CodeRow,
    FrozenBestRow,
    JobRow,
    LeaderboardRow,
    RecordRow,
    RunRow,
    SubmissionRow,
    UserRow,
)
from kernelcup_harness.protocol import RunReport

MOST_RECORDS = 2000
"""Duels are searched among this many of the newest improvements of a ranking."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Behind:
    """The run and the code behind a place."""

    run_id: int
    code_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DuelRow:
    """A run that was measured against the leader."""

    run_id: int
    user_id: int
    submission_id: int
    rival_id: int | None
    outcome: DuelOutcome
    at: datetime


def behind(
    session: Session, *, board_id: int, device: str, frozen: bool, submission_ids: Collection[int]
) -> dict[int, Behind]:
    """Return the runs and codes behind some places of a ranking, by submission."""
    best = FrozenBestRow if frozen else BestRow
    query = (
        select(best.submission_id, best.run_id, SubmissionRow.code_hash)
        .join(SubmissionRow, SubmissionRow.id == best.submission_id)
        # Filter by the users, who are the key: otherwise the index by score would be read to its end.
        .where(best.user_id.in_(teams.owners_of(*submission_ids)))
        .where(best.leaderboard_id == board_id, best.device == device)
        .where(best.submission_id.in_(submission_ids))
    )
    return {number: Behind(run_id=run_id, code_hash=code) for number, run_id, code in session.execute(query)}


def reports(session: Session, run_ids: Collection[int]) -> dict[int, tuple[str, RunReport]]:
    """Return the task version and the report of each run."""
    query = select(RunRow.id, RunRow.task_hash, RunRow.report, RunRow.report_file)
    found = session.execute(query.where(RunRow.id.in_(run_ids)))
    return {row.id: (row.task_hash, runs.report_of(session, row)) for row in found}


def codes(session: Session, hashes: Collection[str]) -> Mapping[str, str]:
    """Return codes by their hashes."""
    query = select(CodeRow.hash, CodeRow.files).where(CodeRow.hash.in_(hashes))
    return {row.hash: "\n".join(row.files.values()) for row in session.execute(query)}


def user_names(session: Session, user_ids: Collection[int]) -> dict[int, str]:
    """Return users' names by their ids."""
    query = select(UserRow.id, UserRow.name).where(UserRow.id.in_(user_ids))
    return {row.id: row.name for row in session.execute(query)}


def duels(
    session: Session, *, board_id: int, device: str, until: datetime | None, limit: int
) -> Sequence[DuelRow]:
    """Return the duels of a ranking that were judged as the leaderboard judges now, newest first.

    Only duels of runs that became their user's best are included, not those of runs that lost without an
    improvement.
    """
    newest = (
        select(RecordRow.id, RecordRow.run_id, RecordRow.user_id, RecordRow.submission_id, RecordRow.at)
        .where(RecordRow.leaderboard_id == board_id, RecordRow.device == device)
        .order_by(RecordRow.id.desc())
        .limit(MOST_RECORDS)
        .subquery()
    )
    query = (
        select(newest, RunRow.rival_id, RunRow.duel)
        .join(RunRow, RunRow.id == newest.c.run_id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(LeaderboardRow, LeaderboardRow.id == board_id)
        .where(RunRow.duel != DuelOutcome.NONE.value)
        .where(counts(Ruling.NO_TIME, Ruling.LEVEL))
        .order_by(newest.c.id.desc())
        .limit(limit)
    )
    if until is not None:
        query = query.where(newest.c.at <= until)
    return [made_of(row, DuelRow, outcome=DuelOutcome(row.duel)) for row in session.execute(query)]
