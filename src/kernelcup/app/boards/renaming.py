"""Give a leaderboard another name."""

from __future__ import annotations

from datetime import datetime

from kernelcup.app.boards.boards import check_board_name, find_managed
from kernelcup.app.boards.queries import boards
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor
from kernelcup.engine import Database
from kernelcup.errors import Conflict


def rename_board(db: Database, actor: Actor, name: str, new_name: str, *, now: datetime) -> None:
    """Give a leaderboard another name: its results stay, addresses with the old name end.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not change it.
        InvalidValue: No leaderboard can have the new name.
        Conflict: Another leaderboard has it.
    """
    check_board_name(new_name)
    with db.write(durable=True) as session:
        boards.lock(session, name)
        board = find_managed(session, name, actor)
        other = boards.find(session, new_name)
        if other is not None and other.id != board.id:
            raise Conflict(f"There already is a leaderboard {other.name!r}.")
        boards.rename(session, board.id, new_name)
        audit_log.record(session, actor, "board.rename", f"board:{new_name}", {"before": board.name}, now)
