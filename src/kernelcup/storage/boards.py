"""Leaderboards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelcup.domain import CodePolicy, JobState, Leaderboard, Visibility
from kernelcup.errors import Conflict
from kernelcup.storage.tables import (
    BestRow,
    JobRow,
    LeaderboardDeviceRow,
    LeaderboardRow,
    MemberRow,
    RunRow,
    SubmissionRow,
    UserRow,
)
from kernelcup.storage.users import name_key
from kernelcup_harness.protocol import HarnessKind, Mode


def insert(
    session: Session,
    *,
    name: str,
    task_hash: str,
    devices: Sequence[str],
    harness: HarnessKind,
    opens_at: datetime | None,
    deadline: datetime | None,
    creator_id: int,
    now: datetime,
    visibility: Visibility = Visibility.PUBLIC,
    pseudonymous: bool = False,
    code_policy: CodePolicy = CodePolicy.NEVER,
    max_file_bytes: int | None = None,
    review_tags: Sequence[str] = (),
    freeze_at: datetime | None = None,
) -> int:
    """Store a leaderboard and return its id. Raise ``Conflict`` if the name is taken."""
    row = LeaderboardRow(
        name=name,
        name_key=name_key(name),
        task_hash=task_hash,
        harness=harness.value,
        opens_at=opens_at,
        deadline=deadline,
        creator_id=creator_id,
        created_at=now,
        visibility=visibility.value,
        pseudonymous=pseudonymous,
        code_policy=code_policy.value,
        max_file_bytes=max_file_bytes,
        review_tags=" ".join(review_tags),
        freeze_at=freeze_at,
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(f"There is a leaderboard {name!r} already.") from error
    _insert_devices(session, row.id, devices)
    return row.id


def replace(session: Session, board: Leaderboard) -> None:
    """Store all settings of a leaderboard as they are given; name, creator and creation stay."""
    session.execute(
        update(LeaderboardRow)
        .where(LeaderboardRow.id == board.id)
        .values(
            task_hash=board.task_hash,
            harness=board.harness.value,
            opens_at=board.opens_at,
            deadline=board.deadline,
            visibility=board.visibility.value,
            pseudonymous=board.pseudonymous,
            code_policy=board.code_policy.value,
            max_file_bytes=board.max_file_bytes,
            review_tags=" ".join(board.review_tags),
            freeze_at=board.freeze_at,
        )
    )
    session.execute(delete(LeaderboardDeviceRow).where(LeaderboardDeviceRow.leaderboard_id == board.id))
    _insert_devices(session, board.id, board.devices)


def find(session: Session, name: str) -> Leaderboard | None:
    """Return the leaderboard with this name, in whatever case it is given."""
    row = session.execute(_by_name(), {"name_key": name_key(name)}).first()
    if row is None:
        return None
    board, creator = row
    return _leaderboard(board, creator, session.scalars(_devices_of(), {"board_id": board.id}).all())


@cache
def _by_name() -> Select[LeaderboardRow, str]:
    # Nearly every request asks these two: building them would take longer than running them.
    return _boards().where(LeaderboardRow.name_key == bindparam("name_key"))


@cache
def _devices_of() -> Select[str]:
    return (
        select(LeaderboardDeviceRow.device)
        .where(LeaderboardDeviceRow.leaderboard_id == bindparam("board_id"))
        .order_by(LeaderboardDeviceRow.position)
    )


def some(session: Session, board_ids: Collection[int]) -> dict[int, Leaderboard]:
    """Return leaderboards by their ids."""
    found = _load(session, _boards().where(LeaderboardRow.id.in_(board_ids)))
    return {board.id: board for board in found}


def lock(session: Session, name: str) -> None:
    """Let nobody else change a leaderboard until the transaction ends; read it only after this."""
    query = select(LeaderboardRow.id).where(LeaderboardRow.name_key == name_key(name))
    session.execute(query.with_for_update())


def every(session: Session, *, after_id: int | None = None, limit: int | None = None) -> list[Leaderboard]:
    """Return all leaderboards, the oldest first."""
    return _load(session, _page(after_id, limit))


def seen_by(
    session: Session,
    user_id: int | None,
    *,
    manages_own: bool,
    after_id: int | None = None,
    limit: int | None = None,
) -> list[Leaderboard]:
    """Return the public leaderboards and those closed ones that somebody belongs to or made."""
    seen: list[ColumnElement[bool]] = [LeaderboardRow.visibility == Visibility.PUBLIC.value]
    if user_id is not None:
        mine = select(MemberRow.leaderboard_id).where(MemberRow.user_id == user_id)
        seen.append(LeaderboardRow.id.in_(mine))
    if user_id is not None and manages_own:
        seen.append(LeaderboardRow.creator_id == user_id)
    return _load(session, _page(after_id, limit).where(or_(*seen)))


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
    """Return how many ranked jobs were judged on each device: what a rejudge does again."""
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
    """Return (job, submission) of what waits or runs for a leaderboard on some devices."""
    query = (
        select(JobRow.id, JobRow.submission_id)
        .join(SubmissionRow, SubmissionRow.id == JobRow.submission_id)
        .where(
            SubmissionRow.leaderboard_id == board_id,
            JobRow.device.in_(devices),
            JobRow.state.in_([JobState.QUEUED.value, JobState.RUNNING.value]),
        )
        .order_by(JobRow.id)
    )
    return [(job_id, submission_id) for job_id, submission_id in session.execute(query)]


def move_queued_jobs(session: Session, board_id: int, task_hash: str) -> int:
    """Let what waits for a leaderboard be judged against another task version; return how many."""
    own = select(SubmissionRow.id).where(SubmissionRow.leaderboard_id == board_id)
    moved = session.execute(
        update(JobRow)
        .where(JobRow.submission_id.in_(own), JobRow.state == JobState.QUEUED.value)
        .where(JobRow.task_hash != task_hash)
        .values(task_hash=task_hash)
        .returning(JobRow.id)
        .execution_options(synchronize_session=False)
    )
    return len(moved.all())


def task_hashes(session: Session, board_id: int) -> set[str]:
    """Return all task versions that a leaderboard and its jobs name."""
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
    """Delete a leaderboard with all that hangs on it."""
    session.execute(delete(LeaderboardRow).where(LeaderboardRow.id == board_id))


def _insert_devices(session: Session, board_id: int, devices: Sequence[str]) -> None:
    session.add_all(
        LeaderboardDeviceRow(leaderboard_id=board_id, device=device, position=position)
        for position, device in enumerate(devices)
    )
    session.flush()


def _page(after_id: int | None, limit: int | None) -> Select[LeaderboardRow, str]:
    query = _boards().order_by(LeaderboardRow.id).limit(limit)
    return query if after_id is None else query.where(LeaderboardRow.id > after_id)


def _boards() -> Select[LeaderboardRow, str]:
    return select(LeaderboardRow, UserRow.name).join(UserRow, UserRow.id == LeaderboardRow.creator_id)


def _load(session: Session, query: Select[LeaderboardRow, str]) -> list[Leaderboard]:
    rows = session.execute(query).all()
    devices: dict[int, list[str]] = {row.id: [] for row, _ in rows}
    accepted = (
        select(LeaderboardDeviceRow)
        .where(LeaderboardDeviceRow.leaderboard_id.in_(devices))
        .order_by(LeaderboardDeviceRow.position)
    )
    for device in session.scalars(accepted):
        devices[device.leaderboard_id].append(device.device)
    return [_leaderboard(row, creator, devices[row.id]) for row, creator in rows]


def _leaderboard(board: LeaderboardRow, creator: str, devices: Sequence[str]) -> Leaderboard:
    return Leaderboard(
        id=board.id,
        name=board.name,
        task_hash=board.task_hash,
        devices=tuple(devices),
        harness=HarnessKind(board.harness),
        opens_at=board.opens_at,
        deadline=board.deadline,
        created_at=board.created_at,
        creator=creator,
        creator_id=board.creator_id,
        visibility=Visibility(board.visibility),
        pseudonymous=board.pseudonymous,
        code_policy=CodePolicy(board.code_policy),
        freeze_at=board.freeze_at,
        max_file_bytes=board.max_file_bytes,
        review_tags=tuple(board.review_tags.split()),
    )
