"""The heads of many rankings at once, and the times for plots."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, case, func, select
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.ranking_query import RANKS_TIMES, order
from kernelcup.app.results.queries.ruling import counts
from kernelcup.app.results.queries.standings_queries import revision_of
from kernelcup.clocks import Clock
from kernelcup.engine.rows import made_of
from kernelcup.tables import (
    BestRow,
    FrozenBestRow,
    JobRow,
    LeaderboardDeviceRow,
    LeaderboardRow,
    RecordRow,
    RunRow,
    SubmissionRow,
)
from kernelcup_harness.protocol import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The first entry of a ranking, and its revision."""

    board_id: int
    device: str
    revision: int
    run_id: int
    speedup: float | None
    score_s: float | None
    """None where times do not rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Time:
    """A ranked time of a user."""

    user_id: int
    score_s: float
    at: datetime


def heads(session: Session, board_ids: Collection[int], *, frozen: bool) -> list[Head]:
    """Return the heads of all nonempty rankings of some leaderboards."""
    if not board_ids:
        return []
    return [
        made_of(row, Head, board_id=row.leaderboard_id)
        for row in session.execute(_heads(frozen=frozen), {"board_ids": list(board_ids)})
    ]


@cache
def _heads(*, frozen: bool) -> Select[Any]:
    # Most pages ask: to build it takes longer than to run it for one leaderboard.
    best = FrozenBestRow if frozen else BestRow
    of = LeaderboardDeviceRow
    mine = (best.leaderboard_id == of.leaderboard_id, best.device == of.device)
    # One look into an index for each: grouped, all entries would be read.
    first = select(best.run_id).where(*mine).order_by(*order(best)).limit(1).correlate(of).scalar_subquery()
    tops = (
        select(of.leaderboard_id, of.device, revision_of(frozen).label("revision"), first.label("run_id"))
        .where(of.leaderboard_id.in_(bindparam("board_ids", expanding=True)))
        .subquery()
    )
    time_s = case((RANKS_TIMES, RunRow.score_s)).label("score_s")
    return (
        select(tops, time_s, RunRow.speedup)
        .join(RunRow, RunRow.id == tops.c.run_id)
        .join(LeaderboardRow, LeaderboardRow.id == tops.c.leaderboard_id)
    )


def count_entries(
    session: Session, rankings: Collection[tuple[int, str, int]], *, frozen: bool
) -> dict[tuple[int, str, int], int]:
    """Return the number of entries of rankings, by leaderboard, device and revision, which may be newer."""
    best, of = FrozenBestRow if frozen else BestRow, LeaderboardDeviceRow
    mine = (best.leaderboard_id == of.leaderboard_id, best.device == of.device)
    count = select(func.count()).select_from(best).where(*mine).correlate(of).scalar_subquery()
    query = select(of.leaderboard_id, of.device, revision_of(frozen), count)
    rows = session.execute(query.where(of.leaderboard_id.in_({board_id for board_id, *_ in rankings})))
    return {(board_id, device, revision): entries for board_id, device, revision, entries in rows}


def best_before(session: Session, *, board_id: int, device: str, record_id: int) -> float | None:
    """Return the shortest time in a ranking's history before one of its records, None if that is the first."""
    query = (
        select(func.min(RunRow.score_s))
        .join(RecordRow, RecordRow.run_id == RunRow.id)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(LeaderboardRow, LeaderboardRow.id == RecordRow.leaderboard_id)
        .where(RecordRow.leaderboard_id == board_id, RecordRow.device == device, RecordRow.id < record_id)
        .where(counts(), RANKS_TIMES)
    )
    return session.scalar(query)


def times(
    session: Session,
    *,
    board_id: int,
    device: str,
    user_ids: Sequence[int],
    until: datetime | None,
    limit: int,
) -> list[Time]:
    """Return the newest ranked times of some users, whether or not they are bests."""
    query = (
        select(SubmissionRow.user_id, RunRow.score_s, SubmissionRow.created_at)
        .join(JobRow, JobRow.submission_id == SubmissionRow.id)
        .join(RunRow, RunRow.job_id == JobRow.id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .where(SubmissionRow.leaderboard_id == board_id, SubmissionRow.user_id.in_(user_ids))
        .where(JobRow.device == device, JobRow.mode == Mode.LEADERBOARD.value)
        .where(counts(since=until), RANKS_TIMES)
        .order_by(SubmissionRow.id.desc())
        .limit(limit)
    )
    return [
        Time(user_id=user_id, score_s=score_s, at=at)
        for user_id, score_s, at in session.execute(query)
        if score_s is not None
    ]


def timed_by(session: Session, clock: Clock, *, device: str) -> list[str]:
    """Return the leaderboards that rank results of a clock on a device of that name."""
    query = (
        select(LeaderboardRow.name)
        .join(BestRow, BestRow.leaderboard_id == LeaderboardRow.id)
        .join(RunRow, RunRow.id == BestRow.run_id)
        .where(func.lower(BestRow.device) == device.lower(), RunRow.clock == clock.value)
        .distinct()
        .order_by(LeaderboardRow.name)
    )
    return list(session.scalars(query))
