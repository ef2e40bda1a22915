"""Freezes: from a moment on only managers see how a leaderboard's standings change, until they are unveiled."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_board, find_managed
from kernelcup.app.boards.deadlines import parse_opening
from kernelcup.app.boards.queries import boards
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.results import news
from kernelcup.app.results.queries import frozen_standings
from kernelcup.domain import Actor, Leaderboard
from kernelcup.engine import Database
from kernelcup.errors import Conflict, InvalidValue


def frozen_since(db: Database, board: str, *, viewer: Actor, now: datetime) -> datetime | None:
    """Return the time of the freeze if the viewer sees frozen standings, None if they see the live ones."""
    with db.read() as session:
        since = visibility.hidden_since(find_board(session, board, viewer), viewer)
    return since if since is not None and since <= now else None


@operation("POST", "/leaderboards/{name}/freeze", "admin freeze", subject="leaderboards")
def freeze(
    db: Database,
    actor: Actor,
    board: Board,
    at: Annotated[
        datetime | None,
        Given(
            options=("--at",),
            parse=lambda text, _now: parse_opening(text),
            help="Start of the freeze, in the forms of an opening; a date without a time means the start of that day.",
        ),
    ] = None,
    *,
    now: datetime,
) -> Leaderboard:
    """Freeze what others see of the standings, now or at a given time, until you unveil them.

    Raises:
        Conflict: It is already frozen.
        InvalidValue: The time has passed: past standings are not kept.
    """
    at = now if at is None else at
    if at < now:
        raise InvalidValue(f"{at:%Y-%m-%d %H:%M:%S} UTC has passed: a leaderboard can freeze now or later.")
    with db.write(durable=True) as session:
        boards.lock(session, board)
        found = find_managed(session, board, actor)
        if found.freeze_at is not None and found.freeze_at <= now:
            raise Conflict(f"Leaderboard {found.name!r} is frozen already; unveil it first.")
        frozen_standings.set_freeze(session, found.id, at)
        frozen_standings.keep(session, found.id, now)
        audit_log.record(session, actor, "board.freeze", f"board:{found.name}", {"at": at.isoformat()}, now)
        return find_board(session, found.name)


@operation("POST", "/leaderboards/{name}/unveil", "admin unveil", subject="leaderboards")
def unveil(db: Database, actor: Actor, board: Board, *, now: datetime) -> Leaderboard:
    """Show everyone the current standings of a frozen leaderboard.

    Raises:
        Conflict: It is not frozen.
    """
    with db.write(durable=True) as session:
        boards.lock(session, board)
        found = find_managed(session, board, actor)
        if found.freeze_at is None:
            raise Conflict(f"Leaderboard {found.name!r} is not frozen.")
        news.unveil(session, found, now)
        frozen_standings.set_freeze(session, found.id, None)
        audit_log.record(session, actor, "board.unveil", f"board:{found.name}", {}, now)
        return find_board(session, found.name)
