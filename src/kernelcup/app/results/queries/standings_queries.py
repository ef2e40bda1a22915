"""The queries of rankings, each built once: most pages ask them, and to build one takes longer than to run it."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Integer,
    Select,
    Subquery,
    Table,
    Update,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
    update,
)

from kernelcup.app.events.queries import teams
from kernelcup.app.machines.queries.agreements import Groups
from kernelcup.app.results.queries import ranking_query
from kernelcup.domain import DuelOutcome, Ruling
from kernelcup.scoring import Entry
from kernelcup.tables import (
    BestRow,
    FrozenBestRow,
    JobRow,
    LeaderboardDeviceRow,
    RunRow,
    SubmissionRow,
    UserRow,
    table_of,
)
from kernelcup_harness.protocol import Backend

ALL = 2**31 - 1
"""A limit that is none."""


@cache
def entries(frozen: bool, *, of_class: bool) -> Select[Any]:
    """Return the query of a page of a ranking."""
    best = _bests(frozen).c
    page = select(_bests(frozen)).where(*(_in_one(frozen) if of_class else _on_device(frozen)))
    page = page.order_by(best.host_class, *ranking_query.order(best))
    # Select the page first: joining at once would read all rows above it, too.
    top = page.limit(bindparam("limit", type_=Integer)).offset(bindparam("offset", type_=Integer)).subquery()
    return _with_runs(top).order_by(top.c.host_class, *ranking_query.order(top.c))


@cache
def stands(frozen: bool, *, on_device: bool, of_one: bool) -> Select[Any]:
    """Return the query of one user's or one submission's entries, with what is known of their rankings."""
    best, other, of = _bests(frozen), _bests(frozen).alias(), _DEVICES.c
    one: BindParameter[int] = bindparam("submission_id")
    # Also that of a submission by its user, who is part of the key: no index has submissions.
    whose = best.c.user_id.in_(teams.owners_of(one)) if of_one else best.c.user_id == bindparam("user_id")
    mine = select(best).where(whose, *(_on_device(frozen) if on_device else ()))
    top = (mine.where(best.c.submission_id == one) if of_one else mine).subquery()
    ranking = (other.c.leaderboard_id == top.c.leaderboard_id, other.c.device == top.c.device)
    # Two looks into an index: other classes by inequality would read the whole ranking.
    less, more = other.c.host_class < top.c.host_class, other.c.host_class > top.c.host_class
    is_split = or_(*(exists().where(*ranking, each).correlate(top) for each in (less, more)))
    return (
        _with_runs(top)
        .add_columns(top.c.leaderboard_id.label("board_id"), top.c.device, is_split.label("is_split"))
        .add_columns(revision_of(frozen).label("revision"))
        .where(of.leaderboard_id == top.c.leaderboard_id, of.device == top.c.device)
        .order_by(top.c.host_class)
    )


def _with_runs(top: Subquery) -> Select[Any]:
    """Return the query of bests with columns of their users, submissions and runs."""
    users, submissions, runs = table_of(UserRow), table_of(SubmissionRow), table_of(RunRow)
    whose: list[Any] = [
        top.c.user_id,
        top.c.run_id,
        top.c.score_s.label("ranked_s"),
        top.c.submission_id,
        users.c.name,
    ]
    return (
        select(*whose)
        .add_columns(top.c.host_class)
        .add_columns(submissions.c.created_at, submissions.c.file_name, runs.c.trust, runs.c.backend)
        .add_columns(
            *(runs.c[name] for name in ranking_query.SCORE), runs.c.lent, runs.c.isolation, top.c.duel
        )
        .join(users, users.c.id == top.c.user_id)
        .join(submissions, submissions.c.id == top.c.submission_id)
        .join(runs, runs.c.id == top.c.run_id)
    )


def apart(board_id: int, device: str, groups: Groups, why: Ruling, since: datetime | None) -> Select[Any]:
    """Return the query of each user's best among results that would rank but for one reason, with the same columns,
    class by class, fastest first."""
    mine = teams.COMPETITOR
    order = tuple(ranking_query.ORDER.values())
    its_class = ranking_query.host_class(groups)
    place = func.row_number().over(partition_by=(mine, its_class), order_by=order).label("place")
    each = ranking_query.ranking(board_id, but=why, since=since)
    each = each.where(JobRow.leaderboard_id == board_id, JobRow.device == device)
    best = each.add_columns(mine.label("user_id"), its_class.label("host_class"), place).subquery()
    top = select(best).where(best.c.place == 1).subquery()
    return _with_runs(top).order_by(top.c.host_class, *ranking_query.order(top.c))


def entry_of(row: Any) -> Entry:
    """Return the entry in a row of these queries."""
    return Entry(
        user=row.name,
        score=ranking_query.score_of(row),
        submission_id=row.submission_id,
        submitted_at=row.created_at,
        file_name=row.file_name,
        trust=row.trust,
        comparable=row.backend != Backend.EMULATED,
        lent=row.lent,
        isolation=row.isolation,
        host_class=row.host_class,
        rank_s=None if row.ranked_s == row.score_s else row.ranked_s,
        duel=DuelOutcome(row.duel),
    )


@cache
def scores(frozen: bool, from_below: bool, from_above: bool) -> Select[Any]:
    """Return the query of what decides about ties, the fastest first."""
    best = _bests(frozen).c
    return (
        select(best.score_s, best.low_s, best.high_s, best.duel)
        .where(*_in_one(frozen), *_inside(frozen, from_below, from_above))
        .order_by(*ranking_query.order(best))
        .limit(bindparam("limit", type_=Integer))
    )


@cache
def count(frozen: bool, of_class: bool, is_above: bool) -> Select[Any]:
    """Return the query of how many entries there are on a device, or above a place of a ranking."""
    best = _bests(frozen)
    where = _in_one(frozen) if of_class else _on_device(frozen)
    query = select(func.count()).select_from(best).where(*where)
    if not is_above:
        return query
    columns = ranking_query.order(best.c)
    return query.where(tuple_(*columns) < tuple_(*(bindparam(each.key, type_=each.type) for each in columns)))


@cache
def sums(frozen: bool, from_below: bool, from_above: bool) -> Select[Any]:
    """Return the query of the number of entries of a part of a ranking, and of sums that change with it."""
    best, mine = _bests(frozen), (*_in_one(frozen), *_inside(frozen, from_below, from_above))
    values = [*map(func.sum, ranking_query.order(best.c)), func.max(best.c.submission_id)]
    return select(func.count(), *values).select_from(best).where(*mine)


@cache
def classes(frozen: bool) -> Select[Any]:
    """Return the query of the classes that have a ranking on a device."""
    of = _bests(frozen).c.host_class
    return select(of).where(*_on_device(frozen)).distinct().order_by(of)


@cache
def leader() -> Select[Any]:
    """Return the query of who is first."""
    best = _bests(frozen=False).c
    query = select(best.user_id, *ranking_query.order(best)).where(*_in_one(frozen=False))
    return query.order_by(*ranking_query.order(best)).limit(1)


@cache
def leader_and() -> Select[Any]:
    """Return the query of who is first, with 1 in front, and of a user's best, with 0."""
    best = _bests(frozen=False).c
    own = select(literal(0), best.user_id, *ranking_query.order(best)).where(*_in_one(frozen=False))
    first = leader().subquery()
    both = union_all(select(literal(1), *first.c), own.where(best.user_id == bindparam("user_id")))
    return select(*both.subquery().c)


@cache
def state(frozen: bool) -> Select[Any]:
    """Return the query of a device's revision, and of the first and the last class of its rankings.

    Each class is one look into an index.
    """
    mine = (_DEVICES.c.leaderboard_id == bindparam("board_id"), _DEVICES.c.device == bindparam("device"))
    of = _bests(frozen).c.host_class
    one = select(of).where(*_on_device(frozen)).limit(1)
    ends = (one.order_by(of).scalar_subquery(), one.order_by(of.desc()).scalar_subquery())
    return select(revision_of(frozen), *ends).where(*mine)


@cache
def revise(frozen: bool, *, of_device: bool, copied: bool) -> Update:
    """Return the statement that gives rankings a new revision, or that of the live ones."""
    change = update(_DEVICES).where(_DEVICES.c.leaderboard_id == bindparam("board_id"))
    change = change.where(_DEVICES.c.device == bindparam("its_device")) if of_device else change
    return change.values({revision_of(frozen): _DEVICES.c.revision if copied else bindparam("new")})


def revision_of(frozen: bool) -> Column[int]:
    """Return the column of a ranking's revision."""
    return _DEVICES.c.frozen_revision if frozen else _DEVICES.c.revision


_DEVICES = table_of(LeaderboardDeviceRow)


def _bests(frozen: bool) -> Table:
    return table_of(FrozenBestRow if frozen else BestRow)


def _in_one(frozen: bool) -> list[ColumnElement[bool]]:
    return [*_on_device(frozen), _bests(frozen).c.host_class == bindparam("host_class")]


def _on_device(frozen: bool) -> list[ColumnElement[bool]]:
    best = _bests(frozen).c
    return [best.leaderboard_id == bindparam("board_id"), best.device == bindparam("device")]


def _inside(frozen: bool, from_below: bool, from_above: bool) -> list[ColumnElement[bool]]:
    score = _bests(frozen).c.score_s
    ends = []
    if from_below:
        ends.append(score >= bindparam("at_least_s"))
    if from_above:
        ends.append(score < bindparam("below_s"))
    return ends
