"""Pauses of the service, of leaderboards and of devices."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelcup.domain import PauseScope
from kernelcup.domain.answers import Pause
from kernelcup.engine.database import upsert
from kernelcup.engine.rows import made_of
from kernelcup.tables import PauseRow, table_of


def put(session: Session, pause: Pause) -> None:
    """Store a pause; an existing one keeps its start and gets the new reason."""
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
    """Return all pauses, or those with the given keys, in a fixed order."""
    wanted = None if keys is None else {(scope.value, key) for scope, key in keys}
    return [
        made_of(row, Pause)
        for row in session.execute(_EVERY)
        if wanted is None or (row.scope, row.key) in wanted
    ]


_TABLE = table_of(PauseRow)
_EVERY = select(_TABLE).order_by(_TABLE.c.scope, _TABLE.c.key)
