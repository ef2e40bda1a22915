"""Bests, their history, and whether all places are as they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.results.queries import ranking_query, runs
from kernelcup.engine import Database
from kernelcup.tables import BestRow, JobRow, LeaderboardRow, RecordRow, RunRow, SubmissionRow, table_of
from kernelcup_kernelbot.importing.imported import Difference, Imported
from kernelcup_kernelbot.importing.reports import HOST_CLASS, positive
from kernelcup_kernelbot.importing.source import Source

Rankings = defaultdict[tuple[str, str], dict[int, float]]
"""Seconds by user, by leaderboard and device."""
Person = TypeVar("Person", bound=Hashable)


def compare(source: Source, db: Database, found: Imported, now: datetime) -> None:
    """Choose the bests where something is new, or an import before was cut off, and note what differs."""
    was, ids = _before(source, found), {board.name: board.id for board in found.boards.values()}
    with db.read() as session:
        wrong = _differences(was, _after(session, ids))
    for name in sorted(found.changed | {each.leaderboard for each in wrong}):
        with db.write() as session:
            _choose(session, ids[name], now)
    with db.read() as session:
        found.differences = _differences(was, _after(session, ids))
    found.places = sum(map(len, was.values()))


def _choose(session: Session, board_id: int, now: datetime) -> None:
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


def _before(source: Source, found: Imported) -> Rankings:
    """Return KernelBot's rankings of what is here: the least of a user's passed public ranked runs."""
    run, sent = source.tables["runs"].c, source.tables["submission"].c
    query = (
        sa.select(sent.leaderboard_id, run.runner, sent.user_id, sa.func.min(run.score))
        .join(source.tables["submission"], sent.id == run.submission_id)
        .where(run.passed, run.secret.is_not(True), run.mode == "leaderboard", run.score > 0)
        .where(run.runner.is_not(None), sent.id.not_in(found.absent))
        .group_by(sent.leaderboard_id, run.runner, sent.user_id)
    )
    rankings = Rankings(dict)
    for board_id, runner, user_id, score in source.execute(query):
        ranking = rankings[found.boards[board_id].name, found.device(runner)]
        if (seconds := positive(score)) is not None:
            ranking[found.users[user_id]] = min(seconds, ranking.get(found.users[user_id], seconds))
    return rankings


def _after(session: Session, boards: Collection[str]) -> Rankings:
    """Return the rankings here, of the class of machines that KernelBot's results are in."""
    best, rankings = BestRow, Rankings(dict)
    query = sa.select(LeaderboardRow.name, best.device, best.user_id, best.score_s)
    query = query.join(best, best.leaderboard_id == LeaderboardRow.id)
    where = best.host_class == HOST_CLASS, LeaderboardRow.name.in_(boards)
    for name, device, user_id, score_s in session.execute(query.where(*where)):
        rankings[name, device][user_id] = score_s
    return rankings


def _differences(was: Rankings, now: Rankings) -> list[Difference]:
    """Return the users whose place or time is not the same in both."""
    wrong = []
    for board, device in sorted(was.keys() | now.keys()):
        before, after = (places_of(each.get((board, device), {})) for each in (was, now))
        for user_id in sorted(before.keys() | after.keys()):
            place = {"before": before.get(user_id), "after": after.get(user_id)}
            if place["before"] != place["after"]:
                wrong.append(Difference(leaderboard=board, device=device, user_id=user_id, **place))
    return wrong


def places_of(ranking: Mapping[Person, float]) -> dict[Person, tuple[int, float]]:
    """Return place and seconds of each user; equal times share a place."""
    first: dict[float, int] = {}
    for place, seconds in enumerate(sorted(ranking.values()), 1):
        first.setdefault(seconds, place)
    return {user: (first[seconds], seconds) for user, seconds in ranking.items()}
