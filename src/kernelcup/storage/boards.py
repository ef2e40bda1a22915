"""Leaderboards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kernelcup.domain import CodePolicy, Leaderboard, Visibility
from kernelcup.errors import Conflict
from kernelcup.storage.tables import LeaderboardDeviceRow, LeaderboardRow, UserRow
from kernelcup.storage.users import name_key
from kernelcup_harness.protocol import HarnessKind


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
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(f"There is a leaderboard {name!r} already.") from error
    session.add_all(
        LeaderboardDeviceRow(leaderboard_id=row.id, device=device, position=position)
        for position, device in enumerate(devices)
    )
    session.flush()
    return row.id


def find(session: Session, name: str) -> Leaderboard | None:
    """Return the leaderboard with this name, in whatever case it is given."""
    found = _load(session, _boards().where(LeaderboardRow.name_key == name_key(name)))
    return found[0] if found else None


def every(session: Session, *, limit: int | None = None) -> list[Leaderboard]:
    """Return all leaderboards, the oldest first."""
    return _load(session, _boards().order_by(LeaderboardRow.id).limit(limit))


def delete_board(session: Session, board_id: int) -> None:
    """Delete a leaderboard with all that hangs on it."""
    session.execute(delete(LeaderboardRow).where(LeaderboardRow.id == board_id))


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
