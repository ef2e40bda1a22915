"""What a leaderboard says of the event that it belongs to."""

from __future__ import annotations

from kernelcup.app import access
from kernelcup.app.events.queries import events
from kernelcup.domain import Actor, BoardSettings
from kernelcup.engine import Session
from kernelcup.errors import Forbidden, InvalidValue
from kernelcup.names import check_name

LARGEST_WEIGHT = 1000


def check_event(settings: BoardSettings) -> None:
    """Raise ``InvalidValue`` if a leaderboard cannot have this event, or this weight there."""
    if settings.event:
        check_name("Event", settings.event)
    if not 0 <= settings.event_weight <= LARGEST_WEIGHT:
        raise InvalidValue(f"event_weight {settings.event_weight:g}: expected 0 to {LARGEST_WEIGHT:,}.")


def check_joins(session: Session, actor: Actor, name: str) -> None:
    """Raise ``Forbidden`` if there is an event of this name whose organiser is another person."""
    found = events.find(session, name) if name else None
    if found is not None and not access.manages_event(actor, found):
        raise Forbidden(
            f"Event {found.name!r} is managed by {found.creator} and admins; ask them to add the leaderboard."
        )
