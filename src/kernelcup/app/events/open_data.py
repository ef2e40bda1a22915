"""The open data of an event: the results of all its leaderboards."""

from __future__ import annotations

from datetime import datetime

from kernelcup.app.events.events import EventName, boards_of, find_managed_event
from kernelcup.app.operation import Archive, operation
from kernelcup.app.results import dataset
from kernelcup.domain import Actor
from kernelcup.engine import Database


@operation(
    "GET", "/events/{event}/dataset.zip", "event dataset", subject="events", is_slow=True, is_aside=True
)
def export_event(db: Database, actor: Actor, event: EventName, *, now: datetime) -> Archive:
    """Export the ranked results of an event's leaderboards in one dataset, as that of one leaderboard.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor does not manage the event or a leaderboard of it.
        InvalidValue: pyarrow is not installed where this runs.
    """
    with db.read() as session:
        found = find_managed_event(session, event, actor)
        names = [each.name for each in boards_of(session, found, actor)]
    return dataset.archive(found.name, [dataset.dataset_of(db, actor, each, now=now) for each in names], now)
