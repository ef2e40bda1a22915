"""What takes no submissions now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.storage.database import upsert
from kernelcup.storage.tables import PauseRow, table_of


class PauseScope(StrEnum):
    """What a pause can stop."""

    SERVICE = "service"
    LEADERBOARD = "leaderboard"
    DEVICE = "device"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """That something takes no submissions now."""

    scope: PauseScope
    key: str
    """Empty, the leaderboard's id, or the device's name in small letters."""
    reason: str
    since: datetime
    by: str


def put(session: Session, pause: Pause) -> None:
    """Store a pause; one that is there stays since when it was, with the new reason."""
    insert = upsert(session, PauseRow).values(
        scope=pause.scope.value, key=pause.key, reason=pause.reason, since=pause.since, by=pause.by
    )
    changed = {"reason": insert.excluded.reason, "by": insert.excluded.by}
    session.execute(insert.on_conflict_do_update(index_elements=["scope", "key"], set_=changed))


def remove(session: Session, scope: PauseScope, key: str) -> bool:
    """End a pause and return whether there was one."""
    ended = delete(PauseRow).where(PauseRow.scope == scope.value, PauseRow.key == key)
    return session.execute(ended.returning(PauseRow.key)).first() is not None


def every(session: Session, keys: Sequence[tuple[PauseScope, str]] | None = None) -> list[Pause]:
    """Return the pauses, or those of some keys, in one order."""
    wanted = None if keys is None else {(scope.value, key) for scope, key in keys}
    return [
        Pause(scope=PauseScope(row.scope), key=row.key, reason=row.reason, since=row.since, by=row.by)
        for row in session.execute(_EVERY)
        if wanted is None or (row.scope, row.key) in wanted
    ]


_TABLE = table_of(PauseRow)
_EVERY = select(_TABLE).order_by(_TABLE.c.scope, _TABLE.c.key)
