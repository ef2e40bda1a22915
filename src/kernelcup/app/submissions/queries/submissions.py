"""Submissions and their code."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, exists, func, or_, select, update
from sqlalchemy import insert as insert_into
from sqlalchemy.orm import Session

from kernelcup.app.people.queries.users import SHOWN_NAME, name_key
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results.queries.ruling import CURRENT, without
from kernelcup.domain import NO_FILTERS, Filters, Job, Leaderboard, Priority, Ruling, Submission
from kernelcup.engine.database import insert_if_absent
from kernelcup.engine.rows import made_of
from kernelcup.engine.views import once
from kernelcup.errors import NotFound
from kernelcup.tables import (
    CodeRow,
    JobRow,
    LeaderboardRow,
    RunRow,
    ScreeningFindingRow,
    SubmissionRow,
    UserRow,
    table_of,
)
from kernelcup_harness.protocol import (
    Mode,
    ProfileOptions,
    SourceTree,
    canonical_hash,
    from_json,
    to_json,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """The current data of a user who submits."""

    user_id: int
    name: str
    banned: bool
    ban_reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Which submissions a list may show."""

    user_id: int | None
    """The user whose own submissions are included in any mode."""
    hidden: Collection[int]
    """Leaderboards without any visible submissions."""
    managed: Collection[int]
    """Leaderboards with all submissions visible."""


def insert(
    session: Session,
    *,
    board: Leaderboard,
    user_id: int,
    code: SourceTree,
    mode: Mode,
    devices: Sequence[str],
    now: datetime,
    client: str = "",
    idempotency_key: str | None = None,
    request_hash: str | None = None,
    profile: ProfileOptions | None = None,
    practice: bool = False,
) -> tuple[int, list[Job]]:
    """Store a submission with one queued job for each device, and return its id and the jobs.

    The user has to be locked, see :func:`find_author`: two concurrent files would get the same turn.
    """
    code_hash = hash_of(code)
    files = {"": code.code} if len(code.files) == 1 else code.files
    insert_if_absent(session, CodeRow, hash=code_hash, files=files)
    values = {
        "leaderboard_id": board.id,
        "user_id": user_id,
        "code_hash": code_hash,
        "file_name": code.entry,
        "mode": mode.value,
        "created_at": now,
        "client": client,
        "idempotency_key": idempotency_key,
        "request_hash": request_hash,
        "profile": None if profile is None else to_json(profile),
    }
    submission_id: int = session.execute(_INSERT, values).scalar_one()
    queued = [
        jobs.enqueue(
            session,
            submission_id=submission_id,
            user_id=user_id,
            leaderboard_id=board.id,
            task_hash=board.task_hash,
            device=device,
            mode=mode,
            priority=Priority.PRACTICE if practice else priority_of(mode),
            practice=practice,
            now=now,
        )
        for device in devices
    ]
    return submission_id, queued


# Built once, because each submission needs them: building them takes longer than SQLite needs to run them.
_INSERT = insert_into(table_of(SubmissionRow)).returning(table_of(SubmissionRow).c.id)
_USERS, _BOARDS, _TABLE = table_of(UserRow), table_of(LeaderboardRow), table_of(SubmissionRow)
_SHOWN_NAME = SHOWN_NAME.label("shown_name")
_AUTHOR = select(_USERS.c.id, _USERS.c.name, _USERS.c.banned_at, _USERS.c.ban_reason).where(
    _USERS.c.id == bindparam("user_id")
)
_LOCKED_AUTHOR = _AUTHOR.with_for_update(key_share=True)
_SHARED_BOARD = (
    select(_BOARDS.c.id).where(_BOARDS.c.name_key == bindparam("name_key")).with_for_update(read=True)
)
_KEPT = (
    select(_TABLE.c.id)
    .where(_TABLE.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(_TABLE.c.id)
    .with_for_update(read=True, key_share=True)
)
_OF_KEY = select(_TABLE.c.id, _TABLE.c.request_hash).where(
    _TABLE.c.user_id == bindparam("user_id"), _TABLE.c.idempotency_key == bindparam("key")
)


def hash_of(code: SourceTree) -> str:
    """Return the hash under which a code is stored: of one file its text's, of several also their names count."""
    # No text has a NUL, so that none has the hash of several files.
    text = code.code if len(code.files) == 1 else f"\0{canonical_hash(code)}"
    return hashlib.sha256(text.encode()).hexdigest()


def priority_of(mode: Mode) -> Priority:
    """Return the class of the queue that a new submission's jobs belong to."""
    apart = {Mode.LEADERBOARD: Priority.RANKED, Mode.PROFILE: Priority.PROFILE}
    return apart.get(mode, Priority.PRACTICE)


def find_author(session: Session, user_id: int, *, lock: bool = False) -> Author | None:
    """Return a user who submits, None if the user does not exist.

    Args:
        user_id: The user's id.
        lock: Exclude other submissions of this user until the transaction ends. Rows that refer to the user
            can still be written.
    """
    row = session.execute(_LOCKED_AUTHOR if lock else _AUTHOR, {"user_id": user_id}).first()
    if row is None:
        return None
    return Author(user_id=row.id, name=row.name, banned=row.banned_at is not None, ban_reason=row.ban_reason)


def share_board(session: Session, name: str) -> None:
    """Lock a leaderboard against changes until the transaction ends, while others may still submit to it."""
    if session.get_bind().dialect.name == "postgresql":  # SQLite has only one writer anyway
        session.execute(_SHARED_BOARD, {"name_key": name_key(name)})


def keep(session: Session, submission_ids: Collection[int]) -> None:
    """Lock submissions against deletion until the transaction ends."""
    session.execute(_KEPT, {"ids": sorted(submission_ids)})


def of_key(session: Session, *, user_id: int, key: str) -> tuple[int, str] | None:
    """Return (submission, hash of its request) for a user's idempotency key, None if it is new."""
    row = session.execute(_OF_KEY, {"user_id": user_id, "key": key}).first()
    return None if row is None else (row.id, row.request_hash or "")


def firsts(session: Session, board_id: int, user_ids: Collection[int]) -> dict[int, int]:
    """Return each user's first submission to a leaderboard, by user id."""
    query = (
        select(SubmissionRow.user_id, func.min(SubmissionRow.id))
        .where(SubmissionRow.leaderboard_id == board_id, SubmissionRow.user_id.in_(user_ids))
        .group_by(SubmissionRow.user_id)
    )
    return {row[0]: row[1] for row in session.execute(query)}


def board_of(session: Session, submission_id: int) -> int | None:
    """Return the leaderboard of a submission; None if it does not exist."""
    return session.scalar(select(SubmissionRow.leaderboard_id).where(SubmissionRow.id == submission_id))


@once
def find(session: Session, submission_id: int) -> Submission | None:
    """Return a submission, None if it does not exist."""
    rows = session.execute(_by_id(), {"submission_id": submission_id}).all()
    return _submission(rows[0], [row.device for row in rows if row.device is not None]) if rows else None


def get(session: Session, submission_id: int) -> Submission:
    """Return a submission that exists."""
    submission = find(session, submission_id)
    assert submission is not None
    return submission


@cache
def _by_id() -> Select[Any]:
    return (
        _submissions()
        .add_columns(_JOBS.c.device)
        .outerjoin(_JOBS, _JOBS.c.submission_id == _TABLE.c.id)
        .where(_TABLE.c.id == bindparam("submission_id"))
        .order_by(_JOBS.c.id)
    )


_JOBS = table_of(JobRow)


def newest(
    session: Session,
    *,
    user_id: int | None = None,
    board_id: int | None = None,
    filters: Filters = NO_FILTERS,
    before_id: int | None = None,
    limit: int = 50,
    seen: Seen | None = None,
) -> list[Submission]:
    """Return a page of submissions, newest first: all of them, or the visible ones."""
    query = _submissions().order_by(_TABLE.c.id.desc()).limit(limit)
    if user_id is not None:
        query = query.where(_TABLE.c.user_id == user_id)
    if board_id is not None:
        query = query.where(_TABLE.c.leaderboard_id == board_id)
    query = query.where(*_chosen(filters))
    if before_id is not None:
        query = query.where(_TABLE.c.id < before_id)
    return _load(session, query if seen is None else _only(query, seen))


def _chosen(filters: Filters) -> Iterator[ColumnElement[bool]]:
    if filters.tag is not None:
        found = table_of(ScreeningFindingRow)
        yield exists().where(found.c.submission_id == _TABLE.c.id, found.c.tag == filters.tag)
    if filters.device is not None:
        yield exists().where(_JOBS.c.submission_id == _TABLE.c.id, _JOBS.c.device == filters.device)
    if filters.verdict is not None:
        judged = (JobRow.submission_id == _TABLE.c.id, RunRow.job_id == JobRow.id, CURRENT)
        yield exists().where(*judged, RunRow.verdict == filters.verdict.value)
    if filters.since is not None:
        yield _TABLE.c.created_at >= filters.since
    if filters.until is not None:
        yield _TABLE.c.created_at <= filters.until


def code(session: Session, submission_id: int) -> SourceTree:
    """Return the code of a submission. Raise ``NotFound``: it may be deleted after it was found."""
    found = find_code(session, submission_id)
    if found is None:
        raise NotFound(f"There is no submission {submission_id}.")
    return found


def find_code(session: Session, submission_id: int) -> SourceTree | None:
    """Return the code of a submission, None if it does not exist."""
    query = (
        select(SubmissionRow.file_name, CodeRow.files)
        .join(SubmissionRow, SubmissionRow.code_hash == CodeRow.hash)
        .where(SubmissionRow.id == submission_id)
    )
    row = session.execute(query).one_or_none()
    if row is None:
        return None
    entry, files = row
    return SourceTree.of(files[""], entry) if "" in files else SourceTree(entry=entry, files=files)


def delete_submission(session: Session, submission_id: int) -> None:
    """Delete a submission with its jobs and runs."""
    session.execute(delete(SubmissionRow).where(SubmissionRow.id == submission_id))


def withdraw(session: Session, submission_id: int, now: datetime) -> None:
    """Mark a submission as withdrawn by its author."""
    session.execute(update(SubmissionRow).where(SubmissionRow.id == submission_id).values(withdrawn_at=now))


def delete_unused_code(session: Session, *, code_hash: str | None = None) -> None:
    """Delete all codes, or the given one, that no submission has any more."""
    unused = ~exists().where(SubmissionRow.code_hash == CodeRow.hash)
    query = delete(CodeRow).where(unused)
    session.execute(query if code_hash is None else query.where(CodeRow.hash == code_hash))


def _only(query: Select[Any], seen: Seen) -> Select[Any]:
    # A result that waits for a review would show the name that the docket hides.
    is_shown = exists().where(_JOBS.c.submission_id == _TABLE.c.id, without(Ruling.HELD))
    allowed = [and_(_TABLE.c.mode == Mode.LEADERBOARD.value, is_shown)]
    if seen.user_id is not None:
        allowed.append(_TABLE.c.user_id == seen.user_id)
    if seen.managed:
        allowed.append(_TABLE.c.leaderboard_id.in_(seen.managed))
    if seen.hidden:
        query = query.where(_TABLE.c.leaderboard_id.not_in(seen.hidden))
    return query.where(or_(*allowed))


def _submissions() -> Select[Any]:
    return (
        select(*_TABLE.c, _BOARDS.c.name.label("board"), _USERS.c.name.label("user"), _SHOWN_NAME)
        .join(_BOARDS, _BOARDS.c.id == _TABLE.c.leaderboard_id)
        .join(_USERS, _USERS.c.id == _TABLE.c.user_id)
    )


def _load(session: Session, query: Select[Any]) -> list[Submission]:
    rows = session.execute(query).all()
    devices: dict[int, list[str]] = {row.id: [] for row in rows}
    found = (
        select(_JOBS.c.submission_id, _JOBS.c.device)
        .where(_JOBS.c.submission_id.in_(devices))
        .order_by(_JOBS.c.id)
    )
    for submission_id, device in session.execute(found):
        devices[submission_id].append(device)
    return [_submission(row, devices[row.id]) for row in rows]


def _submission(row: Any, devices: Sequence[str]) -> Submission:
    profile = None if row.profile is None else from_json(ProfileOptions, row.profile)
    return made_of(
        row, Submission, leaderboard=row.board, devices=tuple(devices), profile=profile, new_jobs=()
    )
