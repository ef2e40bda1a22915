"""Registration for events, and teams.

A team competes as one: it has one place on each leaderboard of the event, under its captain's name in data and its own
name on pages, and its members share what a leaderboard's limits allow one user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.courses.invite_codes import new_code, normal_code
from kernelcup.app.events.events import (
    EventName,
    choose_places,
    find_event,
    find_managed_event,
    lock_boards,
)
from kernelcup.app.events.queries import teams
from kernelcup.app.events.settings import parse_field
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.app.people.user_names import has_invisible
from kernelcup.app.submissions.admission import check_author
from kernelcup.domain import Actor
from kernelcup.domain.events import Event, Registered, Team
from kernelcup.engine import Database, Session
from kernelcup.errors import (
    Conflict,
    DeadlinePassed,
    Forbidden,
    InvalidValue,
    NotFound,
    RegistrationNeeded,
)

LONGEST_TEAM, LONGEST_ANSWER = 40, 500
TeamName = Annotated[str, Given(metavar="TEAM", longest=LONGEST_TEAM, help="Name of the team.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Taking:
    """How a user takes part in an event."""

    registered: Registered
    team: Team | None
    """With the code by which others join."""


@operation("POST", "/events/{event}/registration", "event register", subject="events", personal=True)
def register(
    db: Database,
    actor: Actor,
    event: EventName,
    *,
    accept: Annotated[
        bool, Given(options=("--accept",), help="Accept the terms, and the licence of submitted code.")
    ] = False,
    answers: Annotated[
        list[str],
        Given(
            options=("--answer",),
            longest=LONGEST_ANSWER,
            most=50,
            help='An answer to a question, "Affiliation=A lab"; may be repeated.',
        ),
    ] = [],  # noqa: B006 - it is never changed
    now: datetime,
) -> Taking:
    """Register for an event, or answer its questions again.

    Raises:
        InvalidValue: The terms are not accepted, or an answer is missing or none of the choices.
        DeadlinePassed: The registration has ended.
    """
    user_id = access.account(actor)
    with db.write(durable=True) as session:
        check_author(session, actor, lock=True)
        found = find_event(session, event, actor)
        end = found.register_by or found.ends_at
        if end is not None and now > end:
            raise DeadlinePassed(f"The registration for {found.name!r} ended at {end:%Y-%m-%d %H:%M:%S} UTC.")
        if not accept and (found.terms or found.licence):
            raise InvalidValue(
                f"Read the terms of {found.name!r} on its page, and accept them with `--accept` (over HTTP `accept`)."
            )
        teams.register(session, found.id, user_id, answers=_answers(found, answers), now=now)
        return _taking(session, found, user_id)


@operation("DELETE", "/events/{event}/registration", "event withdraw", subject="events", personal=True)
def withdraw(db: Database, actor: Actor, event: EventName, *, now: datetime) -> None:
    """Take back your registration for an event; you leave your team. What you submitted stays.

    Raises:
        RegistrationNeeded: You are not registered.
        DeadlinePassed: Teams stay as they are by now.
    """
    user_id = access.account(actor)
    with db.write(durable=True) as session:
        boards = lock_boards(session, find_event(session, event, actor))
        found = _registered(session, event, actor, user_id)
        if teams.of_user(session, found.id, user_id) is not None:
            _leave(session, found, user_id, boards, now)
        teams.withdraw(session, found.id, user_id)


@operation("GET", "/events/{event}/registration", "event me", subject="events", personal=True)
def my_registration(db: Database, actor: Actor, event: EventName) -> Taking | None:
    """Show how you take part in an event, with your team's code; null if you are not registered."""
    with db.read() as session:
        found = find_event(session, event, actor)
        if actor.user_id is None or not teams.is_registered(session, found.id, actor.user_id):
            return None
        return _taking(session, found, actor.user_id)


@operation("GET", "/events/{event}/registrations", "event registrations", subject="events")
def registrations(db: Database, actor: Actor, event: EventName) -> list[Registered]:
    """List who has registered, with their answers and teams. Only the organiser may see it."""
    with db.read() as session:
        return teams.registrations(session, find_managed_event(session, event, actor).id)


@operation("GET", "/events/{event}/teams", "event teams", subject="events")
def list_teams(db: Database, viewer: Actor, event: EventName) -> list[Team]:
    """List the teams of an event."""
    with db.read() as session:
        return teams.every(session, find_event(session, event, viewer).id)


@operation("POST", "/events/{event}/teams", "event team create", subject="events", status=201, personal=True)
def create_team(db: Database, actor: Actor, event: EventName, name: TeamName, *, now: datetime) -> Team:
    """Found a team, whose captain you are. Others join with its code.

    Raises:
        RegistrationNeeded: You are not registered.
        Conflict: You are in a team, the name is taken, or the event has no teams.
        DeadlinePassed: Teams stay as they are by now.
    """
    user_id = access.account(actor)
    name = name.strip()
    if not name or not name.isprintable() or has_invisible(name):
        raise InvalidValue(f"Team name {name!r}: expected 1 to {LONGEST_TEAM} visible characters.")
    with db.write(durable=True) as session:
        found = _free(session, event, actor, user_id, now)
        code = new_code()
        team_id = teams.make(session, found.id, name=name, captain_id=user_id, code=code)
        if team_id is None:
            raise Conflict(f"There already is a team {name!r} in {found.name!r}.")
        teams.put(session, found.id, user_id, team_id)
        return Team(name=name, captain=actor.name, members=[actor.name], code=code)


@operation("POST", "/events/{event}/teams/join", "event team join", subject="events", personal=True)
def join_team(
    db: Database,
    actor: Actor,
    event: EventName,
    code: Annotated[str, Given(metavar="CODE", longest=100, help="The team's code.")],
    *,
    now: datetime,
) -> Team:
    """Join a team by its code: your results become the team's.

    Raises:
        RegistrationNeeded: You are not registered.
        NotFound: There is no such code.
        Conflict: You are in a team, or it is full.
        DeadlinePassed: Teams stay as they are by now.
    """
    user_id = access.account(actor)
    with db.write(durable=True) as session:
        boards = lock_boards(session, find_event(session, event, actor))
        found = _free(session, event, actor, user_id, now)
        team = teams.with_code(session, found.id, normal_code(code))
        if team is None:
            raise NotFound(f"No team of {found.name!r} has this code.")
        if len(teams.members(session, team.id)) >= found.team_size:
            raise Conflict(f"Team {team.name!r} is full: {found.team_size} are allowed.")
        teams.put(session, found.id, user_id, team.id)
        choose_places(session, boards, now)
        return teams.shown(session, team, team.code)


@operation("POST", "/events/{event}/teams/leave", "event team leave", subject="events", personal=True)
def leave_team(
    db: Database,
    actor: Actor,
    event: EventName,
    member: Annotated[
        str | None,
        Given(
            options=("--member",), help="A captain names another member, who has to leave; the code changes."
        ),
    ] = None,
    *,
    now: datetime,
) -> None:
    """Leave your team: your results are yours again. If the captain leaves, who registered first takes over.

    Raises:
        RegistrationNeeded: You are not registered.
        NotFound: You are in no team, or the member is not in it.
        Forbidden: Only the captain may remove a member.
        DeadlinePassed: Teams stay as they are by now.
    """
    own_id = access.account(actor)
    with db.write(durable=True) as session:
        boards = lock_boards(session, find_event(session, event, actor))
        found = _registered(session, event, actor, own_id)
        team = teams.of_user(session, found.id, own_id)
        if team is None:
            raise NotFound(f"You are in no team of {found.name!r}.")
        leaving = own_id
        if member is not None and users.name_key(member) != users.name_key(actor.name):
            mates = teams.members(session, team.id)
            if own_id != next(iter(mates)):
                raise Forbidden(f"Only the captain of {team.name!r} may remove a member.")
            named = users.find_name(session, member)
            if named is None or named[0] not in mates:
                raise NotFound(f"{member!r} is not in team {team.name!r}.")
            leaving = named[0]
            teams.change(session, team.id, code=new_code())
        _leave(session, found, leaving, boards, now)
        detail = {"user": member or actor.name, "team": team.name}
        audit_log.record(session, actor, "event.leave", f"event:{found.name}", detail, now)


def _leave(session: Session, event: Event, user_id: int, boards: Sequence[int], now: datetime) -> None:
    """Take a user out of their team; the leaderboards are locked, before any user, as a submission locks them."""
    _check_open(event, now)
    team = teams.of_user(session, event.id, user_id)
    assert team is not None
    teams.put(session, event.id, user_id, None)
    captain_id = next(iter(teams.members(session, team.id)), None)
    if captain_id is None:
        teams.remove(session, team.id)
    elif team.captain_id == user_id:
        teams.change(session, team.id, captain_id=captain_id)
    choose_places(session, boards, now)


def _free(session: Session, name: str, actor: Actor, user_id: int, now: datetime) -> Event:
    """Return an event in which a registered user may come into a team."""
    found = _registered(session, name, actor, user_id)
    if not found.has_teams:
        raise Conflict(f"Event {found.name!r} has no teams.")
    _check_open(found, now)
    team = teams.of_user(session, found.id, user_id)
    if team is not None:
        raise Conflict(f"You are in team {team.name!r}; leave it first.")
    return found


def _check_open(event: Event, now: datetime) -> None:
    end = event.teams_until or event.ends_at
    if end is not None and now > end:
        raise DeadlinePassed(
            f"The teams of {event.name!r} stay as they are since {end:%Y-%m-%d %H:%M:%S} UTC."
        )


def _registered(session: Session, name: str, actor: Actor, user_id: int) -> Event:
    """Return an event for which a user is registered, whom it locks."""
    check_author(session, actor, lock=True)
    found = find_event(session, name, actor)
    check_registered(session, found, user_id)
    return found


def check_registered(session: Session, event: Event, user_id: int) -> None:
    """Raise ``RegistrationNeeded`` unless a user has registered for an event."""
    if not teams.is_registered(session, event.id, user_id):
        raise RegistrationNeeded(
            f"Register for {event.name!r} first: `kernelcup event register {event.name}`."
        )


def _answers(event: Event, given: Sequence[str]) -> dict[str, str]:
    """Return the answers to an event's questions. Raise ``InvalidValue`` for one that is missing or unknown."""
    said = {name.strip().lower(): value.strip() for name, _, value in (each.partition("=") for each in given)}
    found = {}
    for field in map(parse_field, event.fields):
        answer = said.pop(field.name.lower(), "")
        expected = f"; one of: {', '.join(field.choices)}" if field.choices else ""
        if (field.required and not answer) or (answer and field.choices and answer not in field.choices):
            raise InvalidValue(f'Answer {field.name!r} (`--answer "{field.name}=..."`){expected}.')
        found[field.name] = answer
    if said:
        asked = ", ".join(parse_field(each).name for each in event.fields) or "nothing"
        raise InvalidValue(f"{event.name!r} asks no {next(iter(said))!r}; it asks: {asked}.")
    return found


def _taking(session: Session, event: Event, user_id: int) -> Taking:
    (registered,) = teams.registrations(session, event.id, user_id)
    team = teams.of_user(session, event.id, user_id)
    return Taking(registered=registered, team=None if team is None else teams.shown(session, team, team.code))
