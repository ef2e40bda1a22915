"""Create, show, change and delete events; which of them a viewer sees.

An event exists for everyone once it has a text. Until then it exists for those who see one of its leaderboards, as
one that ``--event`` of a leaderboard made, and for its creator and admins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.board_events import check_event, check_results, outside
from kernelcup.app.boards.boards import creator_id, find_managed
from kernelcup.app.boards.queries import boards
from kernelcup.app.events.queries import events, teams
from kernelcup.app.events.settings import Changes, check_settings, texts_of
from kernelcup.app.operation import Archive, Board, Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.results import dataset
from kernelcup.app.results.queries import runs
from kernelcup.domain import OPERATOR, Actor, Leaderboard, Role, Scope
from kernelcup.domain.events import Event, EventSettings
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound
from kernelcup.names import check_name

EventName = Annotated[str, Given(metavar="EVENT", help="Name of the event.")]
_NEVER = datetime.max.replace(tzinfo=UTC)


@operation("POST", "/events", "event create", subject="events", status=201)
def create_event(
    db: Database,
    actor: Actor,
    name: EventName,
    changes: Changes = None,
    *,
    creator: str | None = None,
    now: datetime,
) -> Event:
    """Create an event: a page with a text, leaderboards, a table of points, and registration if you want it.

    Raises:
        InvalidValue: The name or a setting cannot be used.
        Conflict: The name is taken.
    """
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    check_name("Event", name)
    settings = _settings(EventSettings(), changes)
    with db.write(durable=True) as session:
        owner = creator_id(session, creator or actor, now=now)
        if events.insert(session, name, settings, creator_id=owner, now=now) is None:
            raise Conflict(f"There already is an event {name!r}.")
        audit_log.record(session, actor, "event.create", f"event:{name}", {}, now)
        return find_event(session, name, OPERATOR)


@operation("GET", "/events", "event list", subject="events")
def list_events(db: Database, viewer: Actor) -> list[Event]:
    """List the events that you may see, newest first."""
    with db.read() as session:
        seen = {board.event.lower() for board in access.visible_boards(session, viewer)}
        return [each for each in events.every(session) if _is_seen(session, each, viewer, seen)]


@operation("GET", "/events/{event}", "event show", subject="events")
def show_event(db: Database, viewer: Actor, event: EventName) -> Event:
    """Show an event's text, dates, rules, formula and prizes."""
    with db.read() as session:
        return find_event(session, event, viewer)


@operation("PATCH", "/events/{event}", "event update", subject="events")
def update_event(
    db: Database, actor: Actor, event: EventName, changes: Changes = None, *, now: datetime
) -> Event:
    """Change an event's settings; null removes a date.

    Raises:
        InvalidValue: A setting cannot be used.
        Conflict: It has teams, which the change would end, or ranked submissions from outside of the new dates.
    """
    with db.write(durable=True) as session:
        found = find_managed_event(session, event, actor)
        settings = _settings(found, changes)
        largest = max((len(each.members) for each in teams.every(session, found.id)), default=1)
        if largest > settings.team_size:
            raise Conflict(f"A team of {found.name} has {largest} members; it would be too large.")
        mine = boards.some(session, lock_boards(session, found)).values()
        known = {board.id: outside(session, board) for board in mine}
        events.change(session, found.id, settings, changes or ())
        for board in mine:
            check_results(session, board, known[board.id])
        changed = sorted(changes or ())
        audit_log.record(session, actor, "event.update", f"event:{found.name}", {"changed": changed}, now)
        return find_event(session, event, actor)


@operation("DELETE", "/events/{event}", "event delete", subject="events")
def delete_event(
    db: Database,
    actor: Actor,
    event: EventName,
    *,
    confirm: Annotated[str, Given(options=("--confirm",), help="The event's name, as confirmation.")],
    now: datetime,
) -> None:
    """Delete an event with its registrations, teams and announcements. Its leaderboards stay.

    Raises:
        InvalidValue: The name was not confirmed; nothing was deleted.
    """
    with db.write(durable=True) as session:
        found = find_managed_event(session, event, actor)
        if confirm != found.name:
            raise InvalidValue(
                f"To delete it for good, confirm with its name {found.name!r}. Nothing was deleted."
            )
        numbers = lock_boards(session, found)
        events.remove(session, found.id)
        if found.has_teams:
            choose_places(session, numbers, now)
        audit_log.record(session, actor, "event.delete", f"event:{found.name}", {}, now)


@operation("PUT", "/events/{event}/leaderboards/{name}", "event add", subject="events")
def add_board(
    db: Database,
    actor: Actor,
    event: EventName,
    board: Board,
    *,
    weight: Annotated[float, Given(options=("--weight",), help="The weight of its points.")] = 1.0,
    now: datetime,
) -> Leaderboard:
    """Add a leaderboard to an event, or give it another weight there. You must manage both.

    Raises:
        InvalidValue: The weight is not between 0 and 1000.
        Conflict: It has ranked submissions from outside of the event's dates.
    """
    with db.write(durable=True) as session:
        found = find_managed_event(session, event, actor)
        boards.lock(session, board)
        old = find_managed(session, board, actor)
        new = dataclasses.replace(old, event=found.name, event_weight=weight)
        check_event(new)
        boards.replace(session, new, now)
        if new.event != old.event:
            check_results(session, new)
        choose_places(session, [old.id], now)
        detail = {"board": old.name, "weight": weight}
        audit_log.record(session, actor, "event.add", f"event:{found.name}", detail, now)
        return boards.get(session, old.id)


def boards_of(session: Session, event: Event, viewer: Actor) -> list[Leaderboard]:
    """Return the leaderboards of an event that exist for the viewer, sorted by deadline."""
    seen = [each for each in access.visible_boards(session, viewer) if each.event == event.name]
    return sorted(seen, key=lambda board: (board.deadline or _NEVER, board.id))


def list_boards_of(db: Database, event: Event, viewer: Actor) -> Sequence[Leaderboard]:
    """Return the leaderboards of an event that exist for the viewer, sorted by deadline."""
    with db.read() as session:
        return boards_of(session, event, viewer)


def find_event(session: Session, name: str, viewer: Actor) -> Event:
    """Return an event inside a transaction. Raise ``NotFound`` if it does not exist for the viewer."""
    found = events.find(session, name)
    if found is not None:
        seen = {board.event.lower() for board in access.visible_boards(session, viewer)}
        if _is_seen(session, found, viewer, seen):
            return found
    raise NotFound(f"There is no event {name!r}.")


def find_managed_event(session: Session, name: str, actor: Actor) -> Event:
    """Return an event that the actor may change.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it but may not change it.
    """
    found = find_event(session, name, actor)
    if actor.role is not Role.NOBODY and not access.manages_event(actor, found):
        raise Forbidden(f"Event {found.name!r} is managed by {found.creator} and admins.")
    access.require(actor, Scope.MANAGE)
    return found


def lock_boards(session: Session, event: Event) -> list[int]:
    """Lock the leaderboards of an event, and return their numbers."""
    numbers = events.board_ids(session, event.id)
    for number in numbers:
        boards.lock(session, number)
    return numbers


def choose_places(session: Session, board_ids: Sequence[int], now: datetime) -> None:
    """Choose the places of leaderboards, which are locked, again: other people compete together now."""
    for number in board_ids:
        runs.choose_all(session, board_id=number, now=now)


def _settings(old: EventSettings, changes: Changes) -> EventSettings:
    given = dict(changes or {})
    given |= {name: texts_of(given[name]) for name in ("fields", "prizes") if name in given}
    new = dataclasses.replace(old, **given)
    check_settings(new)
    return new


def _is_seen(session: Session, event: Event, viewer: Actor, seen: set[str]) -> bool:
    if event.text or access.manages_event(viewer, event) or event.name.lower() in seen:
        return True
    return viewer.user_id is not None and teams.is_registered(session, event.id, viewer.user_id)


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
