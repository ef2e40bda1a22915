"""Bests, their history, and whether all places are as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup import scoring
from kernelcup.app.results.queries import ranking_query, runs, standings
from kernelcup.domain import JobState
from kernelcup.engine import Database
from kernelcup.tables import (
    BestRow,
    JobRow,
    LeaderboardRow,
    RecordRow,
    ReviewRow,
    RunRow,
    SubmissionRow,
    table_of,
)
from kernelcup_kernelbot import views
from kernelcup_kernelbot.importing.imported import Difference, Imported
from kernelcup_kernelbot.importing.reports import HOST_CLASS
from kernelcup_kernelbot.importing.source import (
    EXPELLED,
    FAILED,
    IS_TIME,
    PLACES,
    SCORES,
    UNCONFIRMED,
    Source,
)
from kernelcup_kernelbot.importing.submissions import state_of

Reasons = Mapping[tuple[int, str], str | None]
"""By submission and device."""
Places = dict[tuple[str, str, int], tuple[int, float]]
"""Place and seconds by leaderboard, device and user here."""
IS_KERNELBOTS = sa.and_(
    JobRow.state == JobState.REJECTED.value, JobRow.reason.in_((EXPELLED, FAILED, UNCONFIRMED))
)
"""The condition for a job that was rejected because KernelBot does not rank it."""
SCRATCH = "kernelcup_compared"
"""The schema of views that are made to be compared, in a transaction that is taken back."""
HERE = (
    "id IN (SELECT submission_id FROM jobs JOIN runs ON runs.job_id = jobs.id WHERE host_class = :host_class)"
)
"""Of the submissions over the views: those that KernelBot judged."""


def reasons(source: Source, found: Imported) -> Reasons:
    """Return for each result with a score why it does not rank at KernelBot, None if it does."""
    query = f"SELECT DISTINCT id, runner, reason, {IS_TIME} AS is_time FROM ({SCORES}) scores"
    rows = source.execute(source.text(query)).all()
    timeless = [f"submission {row.id}" for row in rows if row.reason is None and not row.is_time]
    found.notes["ranks there by a score that is no time, and not here"] += timeless
    return {(row.id, found.device(row.runner)): row.reason for row in rows}


def revise(db: Database, found: Imported, there: Reasons, now: datetime) -> None:
    """Reject what KernelBot has expelled since it came, and accept what it has cleared; write down the expulsions.

    What was decided here stays.
    """
    query = (
        sa.select(
            JobRow.id, JobRow.submission_id, JobRow.device, JobRow.state, JobRow.reason, LeaderboardRow.name
        )
        .join(RunRow, sa.and_(RunRow.job_id == JobRow.id, RunRow.counted, RunRow.host_class == HOST_CLASS))
        .join(LeaderboardRow, LeaderboardRow.id == JobRow.leaderboard_id)
        .where(sa.or_(JobRow.state == JobState.DONE.value, IS_KERNELBOTS))
    )
    changes = []
    with db.read() as session:
        for row in session.execute(query):
            key = row.submission_id, row.device
            was = row.reason if row.state == JobState.REJECTED.value else None
            if key in there and there[key] != was:
                values = {f"new_{name}": each for name, each in state_of(there[key]).items()}
                changes.append({"number": row.id} | values)
                found.changed.add(row.name)
    found.counts["revised"] = len(changes)
    job, review = table_of(JobRow), table_of(ReviewRow)
    new: dict[str, Any] = {"state": sa.bindparam("new_state"), "reason": sa.bindparam("new_reason")}
    with db.write() as session:
        if changes:
            session.execute(sa.update(job).where(job.c.id == sa.bindparam("number")).values(new), changes)
        expelled = sa.select(JobRow.id).where(IS_KERNELBOTS, JobRow.reason == EXPELLED)
        cleared = (review.c.opened_by == HOST_CLASS, review.c.job_id.not_in(expelled))
        session.execute(sa.delete(review).where(*cleared))
        told = {"opened_at": now, "opened_by": HOST_CLASS, "reason": EXPELLED, "evidence": {}}
        told |= {"decision": "rejected", "decided_at": now, "decided_by": HOST_CLASS, "note": ""}
        literals = (sa.literal(each, review.c[name].type) for name, each in told.items())
        written = (
            sa.select(JobRow.id, RunRow.id, SubmissionRow.code_hash, *literals)
            .join(RunRow, sa.and_(RunRow.job_id == JobRow.id, RunRow.counted))
            .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
            .where(JobRow.id.in_(expelled), ~sa.exists().where(review.c.job_id == JobRow.id))
        )
        session.execute(sa.insert(review).from_select(["job_id", "run_id", "code_hash", *told], written))


def compare(source: Source, db: Database, found: Imported, now: datetime) -> None:
    """Choose the bests where something is new, or an import before was cut off, and note what differs."""
    was, ids = _before(source, found), {board.name: board.id for board in found.boards.values()}
    with db.read() as session:
        wrong = list(_differences(was, _after(session, ids)))
    for name in sorted(found.changed | {each.leaderboard for each in wrong}):
        with db.write() as session:
            _choose(session, ids[name], now)
    with db.read() as session:
        found.differences = list(_differences(was, _after(session, ids)))
    found.places = len(was)
    found.has_views = db.engine.dialect.name == "postgresql"
    if found.has_views:
        frozen = {board.name for board in found.boards.values() if board.freeze_at is not None}
        seen = {key: place for key, place in was.items() if key[0] not in frozen}
        over = {key: place for key, place in _over_views(db, ids).items() if key[0] not in frozen}
        found.differences += _differences(seen, over, in_views=True)


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


def _before(source: Source, found: Imported) -> Places:
    """Return the places at KernelBot of what is here."""
    query = source.text(PLACES, which="id <> ALL(:absent)")
    rows = source.execute(query, {"absent": list(found.absent)})
    return _by_key(
        rows,
        lambda row: (
            found.boards[row.leaderboard_id].name,
            found.device(row.runner),
            found.users[row.user_id],
        ),
    )


def _over_views(db: Database, boards: Mapping[str, int]) -> Places:
    """Return the places of KernelBot's results by its rule over the views."""
    names, found = {number: name for name, number in boards.items()}, Places()
    with suppress(_Undone), db.write() as session:
        views.fill(session, SCRATCH)
        tables = {name: f"{SCRATCH}.{name}" for name in ("runs", "submission", "submission_job_status")}
        query = sa.text(PLACES.format(**tables, status="s.status", which=HERE))
        rows = session.execute(query, {"host_class": HOST_CLASS}).all()
        users = dict(session.execute(sa.select(SubmissionRow.id, SubmissionRow.user_id)).all())
        found = _by_key(rows, lambda row: (names[row.leaderboard_id], row.runner, users[row.id]))
        raise _Undone
    return found


class _Undone(Exception):
    """Takes back the views."""


def _by_key(rows: Iterable[Any], key: Callable[[Any], tuple[str, str, int]]) -> Places:
    return {key(row): (row.place, row.score_s) for row in rows}


def _after(session: Session, boards: Mapping[str, int]) -> Places:
    """Return the places in the standings here, of the class of machines that KernelBot's results are in."""
    best, places = BestRow, Places()
    query = sa.select(LeaderboardRow.name, best.device).distinct()
    query = query.join(best, best.leaderboard_id == LeaderboardRow.id)
    where = best.host_class == HOST_CLASS, LeaderboardRow.name.in_(boards)
    for name, device in session.execute(query.where(*where)).all():
        ranked = standings.entries(session, board_id=boards[name], device=device, host_class=HOST_CLASS)
        ranks = scoring.band_heads([each.entry.placed for each in ranked])
        for rank, each in zip(ranks, ranked, strict=True):
            places[name, device, each.user_id] = (rank, each.entry.ranked_s)
    return places


def _differences(was: Places, now: Places, *, in_views: bool = False) -> Iterable[Difference]:
    """Yield the users whose place or time is not the same in both."""
    for key in sorted(was.keys() | now.keys()):
        board, device, user_id = key
        before, after = was.get(key), now.get(key)
        if before != after:
            yield Difference(
                leaderboard=board,
                device=device,
                user_id=user_id,
                before=before,
                after=after,
                in_views=in_views,
            )
