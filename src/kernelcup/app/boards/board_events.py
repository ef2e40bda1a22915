"""What a leaderboard says of the event that it belongs to."""

from __future__ import annotations

import re

from kernelcup.app import access
from kernelcup.app.events.queries import events
from kernelcup.domain import Actor, BoardSettings
from kernelcup.engine import Session
from kernelcup.errors import Forbidden, InvalidValue

LONGEST_NAME = 64
LARGEST_WEIGHT = 1000
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")


def check_event_name(name: str) -> None:
    """Raise ``InvalidValue`` if an event cannot have this name."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(
            f"Event name {name!r}: expected at most {LONGEST_NAME} letters, digits, '-', '_' and '.', "
            "the first a letter or digit."
        )


def check_event(settings: BoardSettings) -> None:
    """Raise ``InvalidValue`` if a leaderboard cannot have this event, or this weight there."""
    if settings.event:
        check_event_name(settings.event)
    if not 0 <= settings.event_weight <= LARGEST_WEIGHT:
        raise InvalidValue(f"event_weight {settings.event_weight:g}: expected 0 to {LARGEST_WEIGHT:,}.")


def check_joins(session: Session, actor: Actor, name: str) -> None:
    """Raise ``Forbidden`` if there is an event of this name whose organiser is another person."""
    found = events.find(session, name) if name else None
    if found is not None and not access.manages_event(actor, found):
        raise Forbidden(
            f"Event {found.name!r} is managed by {found.creator} and admins; ask them to add the leaderboard."
        )
