"""The audit log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from kernelcup.domain import Actor
from kernelcup.domain.answers import AuditEntry
from kernelcup.engine.rows import made_of
from kernelcup.tables import AuditRow, LeaderboardRow


def record(
    session: Session, actor: Actor, action: str, target: str, detail: Mapping[str, Any], now: datetime
) -> None:
    """Store an entry in the transaction of the action itself."""
    session.add(
        AuditRow(
            at=now,
            actor_id=actor.user_id,
            actor=actor.name,
            action=action,
            target=target,
            detail=dict(detail),
        )
    )


def last(session: Session, target: str, action: str) -> AuditEntry | None:
    """Return the newest entry about a target with an action, None without one."""
    newest = page(session, target=target, action=action, before_id=None, limit=1, of_creator=None)
    return newest[0] if newest else None


def page(
    session: Session,
    *,
    target: str | None,
    action: str | None,
    before_id: int | None,
    limit: int,
    of_creator: int | None,
) -> list[AuditEntry]:
    """Return entries, newest first.

    Args:
        target: Return only entries about this target.
        action: Return only entries with this action.
        before_id: Return only entries that are older than this one.
        limit: The maximum number of entries.
        of_creator: Return only entries about leaderboards of the user with this id.
    """
    wanted = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if target is not None:
        wanted = wanted.where(AuditRow.target == target)
    if action is not None:
        wanted = wanted.where(AuditRow.action == action)
    if before_id is not None:
        wanted = wanted.where(AuditRow.id < before_id)
    if of_creator is not None:
        # Leave out entries about a deleted leaderboard that had the same name.
        made = aliased(AuditRow)
        made_since = select(func.max(made.id)).where(
            made.target == AuditRow.target, made.action == "board.create"
        )
        mine = select("board:" + LeaderboardRow.name).where(LeaderboardRow.creator_id == of_creator)
        wanted = wanted.where(
            AuditRow.target.in_(mine), AuditRow.id >= func.coalesce(made_since.scalar_subquery(), 0)
        )
    return [made_of(row, AuditEntry) for row in session.scalars(wanted)]
