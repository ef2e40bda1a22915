"""Bests, their history, and whether all places are as they were."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.results.queries import ranking_query, runs
from kernelcup.tables import BestRow, JobRow, RecordRow, RunRow, SubmissionRow, table_of
from kernelcup_kernelbot.importing.boards import Boards
from kernelcup_kernelbot.importing.reports import HOST_CLASS, positive
from kernelcup_kernelbot.importing.source import Source

Ranking = dict[int, float]
"""Seconds by user."""
Rankings = dict[tuple[int, str], Ranking]
"""By leaderboard and device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A place that is not as it was."""

    leaderboard: str
    device: str
    user_id: int
    before: tuple[int, float] | None
    """Place and seconds; None for none."""
    after: tuple[int, float] | None


def choose(session: Session, board_id: int, now: datetime) -> None:
    """Choose the bests of a leaderboard, and record when KernelBot's results improved them."""
    runs.choose_all(session, board_id=board_id, now=now)
    earlier = sa.func.min(ranking_query.RANKED_S).over(
        partition_by=(JobRow.device, SubmissionRow.user_id),
        order_by=(RunRow.finished_at, RunRow.id),
        rows=(None, -1),
    )
    whose = (SubmissionRow.leaderboard_id, JobRow.device, SubmissionRow.user_id, RunRow.finished_at)
    query = ranking_query.ranking(board_id).add_columns(*whose, earlier.label("earlier"))
    each = query.where(RunRow.host_class == HOST_CLASS).subquery().c
    names = ("leaderboard_id", "device", "user_id", "run_id", "submission_id", "score_s")
    improved = (
        sa.select(*(each[name] for name in names), each.finished_at)
        .where(sa.or_(each.earlier.is_(None), each.score_s < each.earlier))
        .where(~sa.exists().where(RecordRow.run_id == each.run_id))
        .order_by(each.finished_at, each.run_id)
    )
    session.execute(sa.insert(table_of(RecordRow)).from_select([*names, "at"], improved))


def before(source: Source, people: Mapping[str, int], boards: Boards, but: Collection[int]) -> Rankings:
    """Return KernelBot's rankings, without those submissions: the least of a user's passed public ranked runs."""
    run, sent = source.tables["runs"].c, source.tables["submission"].c
    query = (
        sa.select(sent.leaderboard_id, run.runner, sent.user_id, sa.func.min(run.score))
        .join(source.tables["submission"], sent.id == run.submission_id)
        .where(run.passed, run.secret.is_not(True), run.mode == "leaderboard", run.score > 0)
        .where(run.runner.is_not(None), sent.id.not_in(but))
        .group_by(sent.leaderboard_id, run.runner, sent.user_id)
    )
    found: Rankings = {}
    for board_id, runner, user_id, score in source.execute(query):
        ranking = found.setdefault((boards.by_id[board_id].id, boards.device(runner)), {})
        user, seconds = people[user_id], positive(score)
        if seconds is not None:
            ranking[user] = min(seconds, ranking.get(user, seconds))
    return found


def after(session: Session, board_ids: Collection[int]) -> Rankings:
    """Return the rankings here, of the class of machines that KernelBot's results are in."""
    query = sa.select(BestRow.leaderboard_id, BestRow.device, BestRow.user_id, BestRow.score_s)
    found: Rankings = {}
    where = BestRow.host_class == HOST_CLASS, BestRow.leaderboard_id.in_(board_ids)
    for board_id, device, user_id, score_s in session.execute(query.where(*where)):
        found.setdefault((board_id, device), {})[user_id] = score_s
    return found


def differences(was: Rankings, now: Rankings, boards: Boards) -> list[Difference]:
    """Return the users whose place or time is not the same in both."""
    names = {board.id: board.name for board in boards.by_id.values()}
    found = []
    for board_id, device in sorted(was.keys() | now.keys()):
        first, second = (_places(each.get((board_id, device), {})) for each in (was, now))
        found += [
            Difference(
                leaderboard=names[board_id],
                device=device,
                user_id=user_id,
                before=first.get(user_id),
                after=second.get(user_id),
            )
            for user_id in sorted(first.keys() | second.keys())
            if first.get(user_id) != second.get(user_id)
        ]
    return found


def count(rankings: Iterable[Ranking]) -> int:
    """Return how many places there are."""
    return sum(map(len, rankings))


def _places(ranking: Ranking) -> dict[int, tuple[int, float]]:
    """Return place and seconds of each user; equal times share a place."""
    first: dict[float, int] = {}
    for place, seconds in enumerate(sorted(ranking.values()), 1):
        first.setdefault(seconds, place)
    return {user_id: (first[seconds], seconds) for user_id, seconds in ranking.items()}
