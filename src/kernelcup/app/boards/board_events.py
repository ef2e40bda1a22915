"""What a leaderboard says of the event that it belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import datetime

from kernelcup.app import access
from kernelcup.app.events.queries import events
from kernelcup.domain import Actor, BoardSettings, Leaderboard
from kernelcup.engine import Session
from kernelcup.errors import Conflict, Forbidden, InvalidValue
from kernelcup.names import check_name
from kernelcup.reporting.phrases import plural

LARGEST_WEIGHT = 1000


def check_event(settings: BoardSettings) -> None:
    """Raise ``InvalidValue`` if a leaderboard cannot have this event, or this weight there."""
    if settings.event:
        check_name("Event", settings.event)
    if not 0 <= settings.event_weight <= LARGEST_WEIGHT:
        raise InvalidValue(f"event_weight {settings.event_weight:g}: expected 0 to {LARGEST_WEIGHT:,}.")


def check_dates(
    session: Session, settings: BoardSettings, given: Collection[str], course_id: int | None = None
) -> tuple[datetime | None, datetime | None]:
    """Return when a leaderboard opens and closes, from its own dates and those of its event.

    Raises:
        InvalidValue: One of its own dates that is given now would not be in force.
    """
    event = events.find(session, settings.event) if settings.event else None
    if event is None:
        return settings.opens_at, settings.deadline
    held = event.dates_of(settings, course_id)
    for name, own, at in zip(
        ("opens_at", "deadline"), (settings.opens_at, settings.deadline), held, strict=True
    ):
        if name in given and own is not None and own != at:
            raise InvalidValue(
                f"{name} {own:%Y-%m-%d %H:%M:%S} UTC: by the dates of event {event.name!r} it is "
                f"{at:%Y-%m-%d %H:%M:%S} UTC. Change those first: `kernelcup event update {event.name}`."
            )
    return held


def outside(session: Session, board: Leaderboard) -> int:
    """Return how many ranked submissions to a leaderboard are from outside of the dates of its event."""
    event = events.of_board(session, board.id)
    if event is None:
        return 0
    _, ends_at = event.dates_of(
        dataclasses.replace(board, opens_at=board.own_opens_at, deadline=None), board.course_id
    )
    return events.count_outside(session, board.id, event.opens_at, ends_at)


def check_results(session: Session, board: Leaderboard, known: int = 0) -> None:
    """Raise ``Conflict`` if more ranked submissions than were known are from outside of the dates of its event."""
    if (count := outside(session, board)) > known:
        raise Conflict(
            f"{plural(count, 'ranked submission')} to {board.name!r} came before event {board.event!r} opens or after "
            "it ends for the leaderboard, and would give points there. Give the event other dates, or take another "
            "leaderboard."
        )


def check_joins(session: Session, actor: Actor, name: str) -> None:
    """Raise ``Forbidden`` if there is an event of this name whose organiser is another person."""
    found = events.find(session, name) if name else None
    if found is not None and not access.manages_event(actor, found):
        raise Forbidden(
            f"Event {found.name!r} is managed by {found.creator} and admins; ask them to add the leaderboard."
        )
