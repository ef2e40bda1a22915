"""The page of an event: its text and table of points, who is first on its leaderboards, registration and teams.

Its organiser has a second page, with its settings, its leaderboards, who has registered, and the way to the final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, get_origin

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.events import announcements, events, finalists, points, registration
from kernelcup.app.events.settings import LONGEST_TEXT, SETTINGS, parse_field
from kernelcup.app.machines.placement import is_lent_only
from kernelcup.app.operation import OPERATIONS, Parameter, without_none
from kernelcup.app.results import standings
from kernelcup.app.results.runs import costs
from kernelcup.domain import Actor, Visibility
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue, NotFound, UserError
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, changed_settings, perform, shown_settings, text_of
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import classes_text, points_rule

router = APIRouter(route_class=PageRoute)

SHOWN = 3
(CHANGES,) = (each for each in OPERATIONS[events.update_event].parameters if each.given.parts)
FORMS: Mapping[str, Callable[..., Any]] = {
    "register": registration.register,
    "withdraw": registration.withdraw,
    "team": registration.create_team,
    "join": registration.join_team,
    "leave": registration.leave_team,
    "announce": announcements.announce,
    "ask": announcements.ask,
    "answer": announcements.answer,
}
MANAGING: Mapping[str, Callable[..., Any]] = {
    "update": events.update_event,
    "add": events.add_board,
    "advance": finalists.advance,
    "delete": events.delete_event,
}
"""The operations that the forms of both pages do, by the last part of their addresses."""


@router.get("/e")
def show_events(request: Request, db: Db, actor: ActorDep) -> Response:
    """Show the events that exist for the reader, and to creators the form for a new one."""
    return render(request, "events.html", events=events.list_events(db, actor), problem="")


@router.post("/e")
def create(request: Request, db: Db, actor: ActorDep, given: Provided, fields: Fields) -> Response:
    """Create an event."""
    try:
        made = perform(events.create_event, fields, given, changes=None)
    except (Conflict, InvalidValue) as error:
        found = events.list_events(db, actor)
        return render(request, "events.html", status=400, events=found, problem=str(error))
    return RedirectResponse(address("/e", made.name, "manage"), 303)


@router.get("/e/{name}/manage")
def manage(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Show its organiser what can be changed of an event, and who has registered."""
    return _organiser_page(name, request, db, actor)


@router.get("/e/{name}")
def show_event(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show an event with its table of points, and who is first on each device of its leaderboards."""
    return _page(name, request, db, actor, now)


@router.post("/e/{name}/{form}")
def send_form(
    name: str, form: str, request: Request, db: Db, actor: ActorDep, now: Now, given: Provided, fields: Fields
) -> Response:
    """Do what a form of the page asks for."""
    call = FORMS.get(form) or MANAGING.get(form)
    if call is None:
        raise NotFound(f"There is no form {form!r}.")
    event, fixed = events.show_event(db, actor, name), dict[str, Any]()
    if form == "register":
        asked = [parse_field(each).name for each in event.fields]
        fixed["answers"] = [f"{each}={text_of(fields, f'answer:{each}')}" for each in asked]
    try:
        if form == "update":
            fixed["changes"] = changed_settings(CHANGES, fields, event)
        perform(call, fields, given, event=event.name, **fixed)
    except UserError as error:
        if form in MANAGING:
            return _organiser_page(name, request, db, actor, problem=str(error))
        return _page(name, request, db, actor, now, problem=str(error))
    if form == "delete":
        return RedirectResponse("/e", 303)
    page = f"/e/{event.name}/manage" if form in MANAGING else f"/e/{event.name}"
    return RedirectResponse(f"{page}#{text_of(fields, 'at')}", 303)


def _organiser_page(name: str, request: Request, db: Database, actor: Actor, problem: str = "") -> Response:
    registered = registration.registrations(db, actor, name)  # only a manager is answered
    event = events.show_event(db, actor, name)
    mine = [each for each in boards.list_boards(db, actor) if access.manages_board(actor, each)]
    added = events.list_boards_of(db, event, actor)
    return render(
        request,
        "event_manage.html",
        status=400 if problem else 200,
        headers={"Cache-Control": "no-store"},
        problem=problem,
        event=event,
        settings=[(each, _control(each)) for each in SETTINGS],
        values=shown_settings(SETTINGS, event),
        registered=registered,
        boards=added,
        closed=[each for each in added if each.visibility is Visibility.CLOSED],
        free=[each for each in mine if not each.event],
    )


def _control(setting: Parameter) -> Any:
    """Return how a form shows a setting: as choices, or by the name of a macro."""
    kind, _ = without_none(setting.kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [each.value for each in kind]
    is_long = setting.given.longest == LONGEST_TEXT or get_origin(kind) is not None
    return {bool: "tick", datetime: "when"}.get(kind, "lines" if is_long else "line")


def _page(
    name: str, request: Request, db: Database, actor: Actor, now: datetime, problem: str = ""
) -> Response:
    event = events.show_event(db, actor, name)
    found = events.list_boards_of(db, event, actor)
    firsts = {
        (board.name, device): [
            place
            for each in standings.rankings(db, board.name, device, viewer=actor, limit=SHOWN)
            for place in each
        ]
        for board in found
        for device in board.devices
    }
    times = [place.score_s for places in firsts.values() for place in places]
    return render(
        request,
        "event.html",
        status=400 if problem else 200,
        problem=problem,
        event=event,
        said=announcements.list_said(db, actor, event.name),
        manages=access.manages_event(actor, event),
        fields=[parse_field(each) for each in event.fields],
        taking=registration.my_registration(db, actor, event.name),
        teams=registration.list_teams(db, actor, event.name) if event.has_teams else [],
        may_register=(event.register_by or event.ends_at or now) >= now,
        may_team=event.has_teams and (event.teams_until or event.ends_at or now) >= now,
        boards=found,
        points_rule=points_rule,
        table=points.table_of(db, event, found, viewer=actor, now=now),
        firsts=firsts,
        classes_text=classes_text,
        scale=TimeScale.of(times),
        costs=costs(db, found, actor),
        lent_only={
            (board.name, device)
            for board in found
            for device in board.devices
            if is_lent_only(db, board.id, device)
        },
        now=now,
    )
