"""Events: leaderboards that belong together, for example those of one hackathon. An event is only a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kernelcup.app import access
from kernelcup.domain import OPERATOR, Actor, Leaderboard
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, NotFound

LONGEST_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")
_NEVER = datetime.max.replace(tzinfo=UTC)


def check_event(name: str) -> None:
    """Raise ``InvalidValue`` if an event cannot have this name; an empty name means no event."""
    if name and not _NAME.fullmatch(name):
        raise InvalidValue(
            f"Event name {name!r}: expected at most {LONGEST_NAME} letters, digits, '-', '_' and '.', "
            "the first a letter or digit."
        )


def boards_of_event(db: Database, name: str, viewer: Actor = OPERATOR) -> Sequence[Leaderboard]:
    """Return the leaderboards of an event that exist for the viewer, sorted by deadline.

    Raise ``NotFound`` if there is none: an event without a visible leaderboard does not exist for the viewer.
    """
    with db.read() as session:
        seen = access.visible_boards(session, viewer)
    found = [board for board in seen if board.event and board.event.lower() == name.lower()]
    if not found:
        raise NotFound(f"There is no event {name!r}.")
    return sorted(found, key=lambda board: (board.deadline or _NEVER, board.id))
