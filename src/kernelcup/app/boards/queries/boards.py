"""Leaderboards."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, case, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelcup.app.courses.queries import courses
from kernelcup.app.events.queries import events
from kernelcup.app.people.queries.users import name_key
from kernelcup.domain import OPEN, SETTING_TYPES, BoardSettings, JobState, Leaderboard, Visibility
from kernelcup.domain.events import EventSettings
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.errors import Conflict
from kernelcup.tables import (
    BestRow,
    BoardEventRow,
    ComparisonRow,
    CourseRow,
    JobRow,
    LeaderboardDeviceRow,
    LeaderboardRow,
    MemberRow,
    RunRow,
    SubmissionRow,
    UserRow,
    table_of,
)
from kernelcup_harness.protocol import HarnessKind, Mode


def insert(
    session: Session,
    *,
    name: str,
    task_hash: str,
    devices: Sequence[str],
    harness: HarnessKind,
    creator_id: int,
    now: datetime,
    settings: BoardSettings,
    judging: str = "",
    seeds_below: int | None = None,
    discord_thread: str = "",
) -> int:
    """Store a leaderboard and return its id. Raise ``Conflict`` if the name is taken."""
    row = LeaderboardRow(
        name=name,
        name_key=name_key(name),
        task_hash=task_hash,
        harness=harness.value,
        creator_id=creator_id,
        created_at=now,
        judging=judging,
        seeds_below=seeds_below,
        discord_thread=discord_thread,
        event_id=events.ensure(session, settings.event, creator_id=creator_id, now=now),
        **_columns(settings),
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(f"There already is a leaderboard {name!r}.") from error
    put_devices(session, row.id, devices)
    return row.id


def replace(session: Session, board: Leaderboard, now: datetime) -> None:
    """Replace all settings of a leaderboard except name, creator and time of creation."""
    since = case((LeaderboardRow.judging == board.judging, LeaderboardRow.judging_since), else_=now)
    session.execute(
        update(LeaderboardRow)
        .where(LeaderboardRow.id == board.id)
        .values(
            task_hash=board.task_hash,
            harness=board.harness.value,
            judging=board.judging,
            judging_since=since,
            seeds_below=board.seeds_below,
            event_id=events.ensure(session, board.event, creator_id=board.creator_id, now=now),
            **_columns(board),
        )
    )
    mine = delete(LeaderboardDeviceRow).where(LeaderboardDeviceRow.leaderboard_id == board.id)
    session.execute(mine.where(LeaderboardDeviceRow.device.not_in(board.devices)))
    put_devices(session, board.id, board.devices)


def _columns(settings: BoardSettings) -> dict[str, Any]:
    own = (
        {"opens_at": settings.own_opens_at, "deadline": settings.own_deadline}
        if isinstance(settings, Leaderboard)
        else {}
    )
    return {name: _column(getattr(settings, name)) for name in SETTING_TYPES if name != "event"} | own


def _column(value: object) -> object:
    """Return a setting as it is stored: a choice as its word, texts separated by blanks."""
    if isinstance(value, Enum):
        return value.value
    return " ".join(value) if isinstance(value, tuple | list) else value


def _setting(kind: Any, column: Any) -> Any:
    """Return the setting of this type from its column."""
    if kind == Sequence[str]:
        return tuple(column.split())
    return kind(column) if isinstance(kind, type) and issubclass(kind, Enum) else column


def add_notice(session: Session, board_id: int, text: str) -> None:
    """Append a notice for participants to a leaderboard."""
    mine = update(LeaderboardRow).where(LeaderboardRow.id == board_id)
    session.execute(mine.values(notice=func.trim(LeaderboardRow.notice + " " + text)))


def rename(session: Session, board_id: int, name: str) -> None:
    """Give a leaderboard a name that no other one has."""
    mine = update(LeaderboardRow).where(LeaderboardRow.id == board_id)
    session.execute(mine.values(name=name, name_key=name_key(name)))
    courses.rename_with_board(session, board_id, name)


@once
def find(session: Session, name: str) -> Leaderboard | None:
    """Return the leaderboard with this name, ignoring case, None if there is none."""
    rows = session.execute(_by("name_key"), {"name_key": name_key(name)}).all()
    return _leaderboard(rows[0], [row.device for row in rows if row.device is not None]) if rows else None


@cache
def _by(column: str) -> Select[Any]:
    # Cached, because nearly every request needs it: building the query takes longer than running it.
    devices = table_of(LeaderboardDeviceRow)
    return (
        _boards()
        .add_columns(devices.c.device)
        .outerjoin(devices, devices.c.leaderboard_id == _BOARDS.c.id)
        .where(_BOARDS.c[column] == bindparam(column))
        .order_by(devices.c.position)
    )


def some(session: Session, board_ids: Collection[int]) -> dict[int, Leaderboard]:
    """Return leaderboards by their ids."""
    found = _load(session, _boards().where(_BOARDS.c.id.in_(board_ids)))
    return {board.id: board for board in found}


def get(session: Session, board_id: int) -> Leaderboard:
    """Return the leaderboard with this number, which exists."""
    rows = session.execute(_by("id"), {"id": board_id}).all()
    return _leaderboard(rows[0], [row.device for row in rows if row.device is not None])


def lock(session: Session, board: str | int) -> None:
    """Lock a leaderboard, by name or number, against changes until the transaction ends; read it only after this."""
    if session.get_bind().dialect.name == "postgresql":  # SQLite has only one writer anyway
        column, value = (
            (_BOARDS.c.id, board) if isinstance(board, int) else (_BOARDS.c.name_key, name_key(board))
        )
        session.execute(select(_BOARDS.c.id).where(column == value).with_for_update())


def lock_with_jobs(session: Session, name: str) -> None:
    """Lock a leaderboard for a change that may end its jobs.

    The jobs are locked first: a transaction that stores a result holds its job and then waits for the leaderboard,
    so the other order could deadlock.
    """
    query = (
        select(JobRow.id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .join(LeaderboardRow, LeaderboardRow.id == SubmissionRow.leaderboard_id)
        .where(LeaderboardRow.name_key == name_key(name))
        .where(JobRow.state.in_(OPEN))
        .order_by(JobRow.id)
    )
    session.execute(query.with_for_update(of=JobRow))
    lock(session, name)


def every(session: Session, *, after_id: int | None = None, limit: int | None = None) -> list[Leaderboard]:
    """Return all leaderboards, oldest first."""
    return _load(session, _page(after_id, limit))


def seen_by(
    session: Session,
    user_id: int | None,
    *,
    manages_own: bool,
    after_id: int | None = None,
    limit: int | None = None,
) -> list[Leaderboard]:
    """Return the public leaderboards, and the closed ones that a user is a member of or created."""
    seen: list[ColumnElement[bool]] = [_BOARDS.c.visibility == Visibility.PUBLIC.value]
    if user_id is not None:
        members = table_of(MemberRow)
        seen.append(_BOARDS.c.course_id.in_(select(members.c.course_id).where(members.c.user_id == user_id)))
    if user_id is not None and manages_own:
        seen.append(_BOARDS.c.creator_id == user_id)
    return _load(session, _page(after_id, limit).where(or_(*seen)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Door:
    """The settings that decide who sees a leaderboard, in addition to its members."""

    id: int
    creator_id: int
    visibility: Visibility
    pseudonymous: bool


def doors(session: Session) -> list[Door]:
    """Return the visibility settings of all leaderboards, without reading everything else."""
    return [made_of(row, Door) for row in session.execute(_DOORS)]


_DOORS = select(*(table_of(LeaderboardRow).c[name] for name in Door.__slots__))


def count_submissions(session: Session, board_id: int) -> int:
    """Return how many submissions a leaderboard has."""
    query = select(func.count()).select_from(SubmissionRow).where(SubmissionRow.leaderboard_id == board_id)
    return session.execute(query).scalar_one()


def count_entries(session: Session, board_id: int) -> dict[str, int]:
    """Return how many users have a standing on each device."""
    query = (
        select(BestRow.device, func.count())
        .where(BestRow.leaderboard_id == board_id)
        .group_by(BestRow.device)
        .order_by(BestRow.device)
    )
    return dict(session.execute(query).all())


def count_ranked_jobs(session: Session, board_id: int) -> dict[str, int]:
    """Return how many ranked jobs were judged on each device; a rejudge would repeat these."""
    query = (
        select(JobRow.device, func.count())
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(
            SubmissionRow.leaderboard_id == board_id,
            JobRow.mode == Mode.LEADERBOARD.value,
            JobRow.state == JobState.DONE.value,
        )
        .group_by(JobRow.device)
        .order_by(JobRow.device)
    )
    return dict(session.execute(query).all())


def used_devices(session: Session, board_id: int, devices: Sequence[str]) -> list[str]:
    """Return those of the devices on which a leaderboard has submissions."""
    query = (
        select(JobRow.device)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.leaderboard_id == board_id, JobRow.device.in_(devices))
        .distinct()
    )
    used = set(session.scalars(query))
    return [device for device in devices if device in used]


def open_jobs(session: Session, board_id: int, devices: Sequence[str]) -> list[tuple[int, int]]:
    """Return (job, submission) of the waiting and running jobs of a leaderboard on some devices."""
    query = (
        select(JobRow.id, JobRow.submission_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(
            SubmissionRow.leaderboard_id == board_id,
            JobRow.device.in_(devices),
            JobRow.state.in_(OPEN),
        )
        .order_by(JobRow.id)
    )
    return [(job_id, submission_id) for job_id, submission_id in session.execute(query)]


def move_queued_jobs(session: Session, board_id: int, task_hash: str) -> int:
    """Move the waiting jobs of a leaderboard to another task version; return how many."""
    own = select(SubmissionRow.id).where(SubmissionRow.leaderboard_id == board_id)
    moved = session.execute(
        update(JobRow)
        .where(JobRow.submission_id.in_(own), JobRow.state.in_([JobState.QUEUED, JobState.HALTED]))
        .where(JobRow.task_hash != task_hash)
        .values(task_hash=task_hash)
        .returning(JobRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(moved.all())


def task_hashes(session: Session, board_id: int) -> set[str]:
    """Return all task versions that a leaderboard, its jobs and its runs refer to."""
    own = select(SubmissionRow.id).where(SubmissionRow.leaderboard_id == board_id)
    judged = select(JobRow.task_hash).where(JobRow.submission_id.in_(own)).distinct()
    run = (
        select(RunRow.task_hash)
        .join(JobRow, JobRow.id == RunRow.job_id)
        .where(JobRow.submission_id.in_(own))
        .distinct()
    )
    current = select(LeaderboardRow.task_hash).where(LeaderboardRow.id == board_id)
    return {*session.scalars(current), *session.scalars(judged), *session.scalars(run)}


def delete_board(session: Session, board_id: int) -> None:
    """Delete a leaderboard with everything that belongs to it."""
    # Comparisons go first: otherwise PostgreSQL sets both submissions of a comparison to null before it
    # deletes it, and then misses its job.
    own = (
        select(JobRow.id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(SubmissionRow.leaderboard_id == board_id)
    )
    session.execute(delete(ComparisonRow).where(ComparisonRow.job_id.in_(own)))
    courses.remove_with_board(session, board_id)
    session.execute(delete(LeaderboardRow).where(LeaderboardRow.id == board_id))


def put_devices(session: Session, board_id: int, devices: Sequence[str]) -> None:
    """Store the devices that a leaderboard accepts, in this order, beside those that it has."""
    # Devices that stay keep their revisions: a changed one would tell readers of a freeze that something happened.
    places = enumerate(devices)
    rows = [{"leaderboard_id": board_id, "device": device, "position": at} for at, device in places]
    put = upsert(session, LeaderboardDeviceRow).values(rows)
    kept = {"position": put.excluded.position}
    session.execute(put.on_conflict_do_update(index_elements=["leaderboard_id", "device"], set_=kept))


# Columns instead of mapped objects, because each request reads leaderboards, and only reads them.
_BOARDS = table_of(LeaderboardRow)
_DATES = ("opens_at", "qualifier_at", "ends_at")


def _page(after_id: int | None, limit: int | None) -> Select[Any]:
    query = _boards().order_by(_BOARDS.c.id).limit(limit)
    return query if after_id is None else query.where(_BOARDS.c.id > after_id)


def _boards() -> Select[Any]:
    people, course, of = table_of(UserRow), table_of(CourseRow), table_of(BoardEventRow).c
    return (
        select(*_BOARDS.c, people.c.name.label("creator"), course.c.name.label("course"))
        .add_columns(
            func.coalesce(of.name, "").label("event"), func.coalesce(of.licence, "").label("licence")
        )
        .add_columns(*(of[name].label(f"event_{name}") for name in _DATES))
        .join(people, people.c.id == _BOARDS.c.creator_id)
        .outerjoin(course, course.c.id == _BOARDS.c.course_id)
        .outerjoin(of.id.table, of.id == _BOARDS.c.event_id)
    )


def _load(session: Session, query: Select[Any]) -> list[Leaderboard]:
    rows = session.execute(query).all()
    devices: dict[int, list[str]] = {row.id: [] for row in rows}
    accepted = table_of(LeaderboardDeviceRow)
    found = (
        select(accepted.c.leaderboard_id, accepted.c.device)
        .where(accepted.c.leaderboard_id.in_(devices))
        .order_by(accepted.c.position)
    )
    for board_id, device in session.execute(found):
        devices[board_id].append(device)
    return [_leaderboard(row, devices[row.id]) for row in rows]


def _leaderboard(board: Any, devices: Sequence[str]) -> Leaderboard:
    settings = {name: _setting(kind, getattr(board, name)) for name, kind in SETTING_TYPES.items()}
    own = {"own_opens_at": board.opens_at, "own_deadline": board.deadline}
    found = made_of(board, Leaderboard, devices=tuple(devices), **settings, **own)
    if not board.event:
        return found
    event = EventSettings(**{name: getattr(board, f"event_{name}") for name in _DATES})
    opens_at, deadline = event.dates_of(found, found.course_id)
    return dataclasses.replace(found, opens_at=opens_at, deadline=deadline)
