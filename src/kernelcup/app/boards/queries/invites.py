"""Codes that make one user each a member of some leaderboards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, delete, insert, select, update
from sqlalchemy.orm import Session

from kernelcup.domain.answers import Invite
from kernelcup.engine.rows import made_of
from kernelcup.tables import InviteBoardRow, InviteRow, LeaderboardRow, UserRow


@dataclass(frozen=True, kw_only=True, slots=True)
class NewInvite:
    """An invite to be stored."""

    code: str
    label: str = ""
    pseudonym: str | None = None


def insert_all(
    session: Session,
    new: Sequence[NewInvite],
    *,
    board_ids: Sequence[int],
    created_by: int | None,
    now: datetime,
) -> None:
    """Store invites to the same leaderboards."""
    if not new:
        return
    rows = [
        {"code": each.code, "label": each.label, "pseudonym": each.pseudonym}
        | {"created_by": created_by, "created_at": now}
        for each in new
    ]
    session.execute(insert(InviteRow), rows)
    opened = [{"code": each.code, "leaderboard_id": board_id} for each in new for board_id in board_ids]
    session.execute(insert(InviteBoardRow), opened)


def find(session: Session, code: str) -> Invite | None:
    """Return an invite, None if the code does not exist."""
    found = _load(session, _invites().where(InviteRow.code == code))
    return found[0] if found else None


def of_board(
    session: Session, board_id: int, *, after: str | None = None, limit: int | None = None
) -> list[Invite]:
    """Return the invites that open a leaderboard, sorted by code."""
    codes = select(InviteBoardRow.code).where(InviteBoardRow.leaderboard_id == board_id)
    query = _invites().where(InviteRow.code.in_(codes)).order_by(InviteRow.code).limit(limit)
    return _load(session, query if after is None else query.where(InviteRow.code > after))


def claim(session: Session, code: str, *, user_id: int, now: datetime) -> bool:
    """Claim an invite for a user; return whether it was free. Of several concurrent claims one succeeds."""
    free = (InviteRow.code == code, InviteRow.claimed_at.is_(None))
    claimed = update(InviteRow).where(*free).values(claimed_by=user_id, claimed_at=now)
    return session.execute(claimed.returning(InviteRow.code)).first() is not None


def remove(session: Session, code: str) -> None:
    """Delete an invite; the user who claimed it stays a member."""
    session.execute(delete(InviteRow).where(InviteRow.code == code))


def _invites() -> Select[InviteRow, str | None]:
    return select(InviteRow, UserRow.name).join(UserRow, UserRow.id == InviteRow.claimed_by, isouter=True)


def _load(session: Session, query: Select[InviteRow, str | None]) -> list[Invite]:
    rows = session.execute(query).all()
    opened: dict[str, list[str]] = {}
    codes = [row.code for row, _ in rows]
    for start in range(0, len(codes), 500):
        names = (
            select(InviteBoardRow.code, LeaderboardRow.name)
            .join(LeaderboardRow, LeaderboardRow.id == InviteBoardRow.leaderboard_id)
            .where(InviteBoardRow.code.in_(codes[start : start + 500]))
            .order_by(LeaderboardRow.id)
        )
        for code, name in session.execute(names):
            opened.setdefault(code, []).append(name)
    return [
        made_of(
            row, Invite, boards=tuple(opened.get(row.code, ())), claimed_by=user, claimed_by_id=row.claimed_by
        )
        for row, user in rows
    ]
