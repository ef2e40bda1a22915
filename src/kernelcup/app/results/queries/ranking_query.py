"""Which runs may rank for their users, and in which ranking: one rule for live and frozen standings.

A ranking is of one (leaderboard, device, class of machines). Classes that were shown to agree rank together.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, and_, case, func, not_, or_, select
from sqlalchemy.orm import Session

from kernelcup.app.events.queries import teams
from kernelcup.app.machines.queries import agreements
from kernelcup.app.machines.queries.agreements import Groups
from kernelcup.app.results.queries.ruling import counts, only
from kernelcup.domain import DuelOutcome, Ruling, Score
from kernelcup.scoring import UNTIMED_S, WIDEST, level
from kernelcup.tables import JobRow, LeaderboardRow, RunRow, SubmissionRow
from kernelcup_harness.protocol import Backend, TrustLevel

RANKS_TIMES = or_(
    RunRow.backend == Backend.CUDA.value,
    and_(RunRow.backend == Backend.CPU.value, LeaderboardRow.cpu_times),
)
"""The condition for runs whose time ranks: :meth:`kernelcup.domain.BoardSettings.ranks_times`."""

_IS_WIDE = or_(RunRow.high_s > RunRow.score_s * WIDEST, RunRow.low_s * WIDEST < RunRow.score_s)
OWN_RANK_S = case((_IS_WIDE, RunRow.high_s), else_=RunRow.score_s)
""":func:`kernelcup.scoring.own_rank_s`."""

_BEHIND = and_(LeaderboardRow.duel, RunRow.rank_s.is_not(None))
RANKED_S = case((not_(RANKS_TIMES), UNTIMED_S), (_BEHIND, RunRow.rank_s), else_=OWN_RANK_S)
"""The time that a run is ranked by, in seconds: after a duel that it did not win, if the leaderboard asks for duels,
that of the duel, and the same for all whose times do not rank."""
_NOT_BEHIND = RunRow.duel.in_([outcome.value for outcome in DuelOutcome if not outcome.is_behind])
_DUEL = case(
    (and_(LeaderboardRow.duel, RANKS_TIMES, or_(RunRow.rank_s.is_not(None), _NOT_BEHIND)), RunRow.duel),
    else_=DuelOutcome.NONE.value,
)
"""The outcome of a duel, as long as it affects the run's place."""

_LEVELS: dict[str, int] = {each.value: level(each) for each in TrustLevel}
ORDER: dict[str, ColumnElement[Any]] = {
    "score_s": RANKED_S,
    "level": case(_LEVELS, value=RunRow.trust, else_=len(_LEVELS)),
    "submission_id": cast("ColumnElement[int]", JobRow.submission_id),
}
"""What orders the runs of a ranking, by the column of a best that holds it: :func:`kernelcup.scoring.order`."""

SCORE = tuple(each.name for each in dataclasses.fields(Score))
"""The columns of a score."""

UNKNOWN = "unknown machines"
"""The class of runs on machines that are not known; an empty one stands for all classes."""

KEY = ("leaderboard_id", "device", "user_id", "host_class")
"""The key of a best."""

COLUMNS = ("run_id", "submission_id", "score_s", "level", "low_s", "high_s", "duel")
"""The columns of a best, in addition to its key: what decides about its rank."""


def order(of: Any) -> tuple[ColumnElement[Any], ...]:
    """Return what orders bests: these columns of them."""
    return tuple(getattr(of, name) for name in ORDER)


def host_class(groups: Groups) -> ColumnElement[str]:
    """Return the expression of the class among whose results a run ranks."""
    grouped = [
        (and_(JobRow.device == device, RunRow.host_class == each), group)
        for (device, each), group in groups.items()
    ]
    return case(*grouped, (RunRow.host_class == "", UNKNOWN), else_=RunRow.host_class)


def class_of(session: Session, machine_class: str, device: str) -> str:
    """Return the class among whose results a run on such a machine ranks."""
    return agreements.groups(session).get((device, machine_class), machine_class or UNKNOWN)


def bests(
    session: Session, board_id: int, *where: ColumnElement[bool], every_version: bool = False
) -> Select[*tuple[Any, ...]]:
    """Return the query of users' bests in the rankings of a leaderboard: :data:`KEY`, then :data:`COLUMNS`.

    A team's is under its captain.

    Args:
        board_id: The leaderboard.
        where: Conditions for the runs.
        every_version: Also what stood for its user before the task changed.
    """
    its_class = host_class(agreements.groups(session))
    place = (
        func.row_number()
        .over(
            partition_by=(JobRow.device, teams.COMPETITOR, its_class, RunRow.judging),
            order_by=tuple(ORDER.values()),
        )
        .label("place")
    )
    whose = (
        SubmissionRow.leaderboard_id,
        JobRow.device,
        teams.COMPETITOR.label("user_id"),
        its_class.label("host_class"),
    )
    each = ranking(board_id, every_version=every_version).add_columns(*whose, place).where(*where).subquery()
    return select(*(each.c[name] for name in (*KEY, *COLUMNS))).where(each.c.place == 1)


def score_of(row: Any) -> Score:
    """Return the score in the columns :data:`SCORE` of a row."""
    return Score(**{name: getattr(row, name) for name in SCORE})


def ranking(
    board_id: int, *, every_version: bool = False, but: Ruling | None = None, since: datetime | None = None
) -> Select[*tuple[Any, ...]]:
    """Return all runs of a leaderboard that rank, with :data:`COLUMNS`.

    Args:
        every_version: Also what ranked before the task changed, and does not until it is judged again.
        but: Instead those that would rank if there was not this reason.
        since: The freeze from which on the reader does not see these; None if there is none.
    """
    by, versions = RANKED_S / RunRow.score_s, [Ruling.OUTDATED] if every_version else []
    return (
        select(
            RunRow.id.label("run_id"),
            *(each.label(name) for name, each in ORDER.items()),
            (RunRow.low_s * by).label("low_s"),
            (RunRow.high_s * by).label("high_s"),
            _DUEL.label("duel"),
        )
        .join(JobRow, JobRow.id == RunRow.job_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .where(SubmissionRow.leaderboard_id == board_id)
        .where(counts(*versions) if but is None else only(but, *versions, since=since))
    )
