"""The page of an event: its text and table of points, who is first on its leaderboards, registration and teams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.events import announcements, events, finalists, points, registration
from kernelcup.app.events.settings import parse_field
from kernelcup.app.machines.placement import is_lent_only
from kernelcup.app.operation import OPERATIONS
from kernelcup.app.results import standings
from kernelcup.app.results.runs import costs
from kernelcup.domain import Actor
from kernelcup.engine.database import Database
from kernelcup.errors import NotFound, UserError
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, perform, shape_of, shown_value, text_of
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import classes_text, points_rule

router = APIRouter(route_class=PageRoute)

SHOWN = 3
FORMS: Mapping[str, Callable[..., Any]] = {
    "register": registration.register,
    "withdraw": registration.withdraw,
    "team": registration.create_team,
    "join": registration.join_team,
    "leave": registration.leave_team,
    "announce": announcements.announce,
    "ask": announcements.ask,
    "answer": announcements.answer,
    "settings": events.update_event,
    "add": events.add_board,
    "finalists": finalists.advance,
}
"""The operations that the page's forms do, by the last part of their addresses."""
ORGANISING = ("settings", "add", "finalists")
"""Those of the organiser's page."""
(SETTINGS,) = (each for each in OPERATIONS[events.update_event].parameters if each.given.parts)


@router.get("/e")
def list_events(request: Request, db: Db, actor: ActorDep) -> Response:
    """List events, and to creators show the form for a new one."""
    return render(request, "events.html", events=events.list_events(db, actor), problem="")


@router.post("/e")
def create_event(request: Request, db: Db, actor: ActorDep, given: Provided, fields: Fields) -> Response:
    """Create an event."""
    try:
        made = perform(events.create_event, fields, given, creator=None)
    except UserError as error:
        listed = events.list_events(db, actor)
        return render(request, "events.html", status=400, events=listed, problem=str(error))
    return RedirectResponse(f"/e/{made.name}/organise", 303)


@router.get("/e/{name}/organise")
def organise(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Show an event's settings, leaderboards, registrations and exports to its organiser."""
    return _organise(name, request, db, actor)


@router.get("/e/{name}")
def show_event(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show an event with its table of points, and who is first on each device of its leaderboards."""
    return _page(name, request, db, actor, now)


@router.post("/e/{name}/{form}")
def send_form(
    name: str, form: str, request: Request, db: Db, actor: ActorDep, now: Now, given: Provided, fields: Fields
) -> Response:
    """Do what a form of the page asks for."""
    if form not in FORMS:
        raise NotFound(f"There is no form {form!r}.")
    event, fixed = events.show_event(db, actor, name), dict[str, Any]()
    if form == "register":
        asked = [parse_field(each).name for each in event.fields]
        fixed["answers"] = [f"{each}={text_of(fields, f'answer:{each}')}" for each in asked]
    try:
        perform(FORMS[form], fields, given, event=event.name, **fixed)
    except UserError as error:
        if form in ORGANISING:
            sent = fields if form == "settings" else None
            return _organise(name, request, db, actor, str(error), sent)
        return _page(name, request, db, actor, now, problem=str(error))
    if form in ORGANISING:
        return RedirectResponse(f"/e/{event.name}/organise#{form}", 303)
    return RedirectResponse(f"/e/{event.name}#{text_of(fields, 'at')}", 303)


def _organise(
    name: str,
    request: Request,
    db: Database,
    actor: Actor,
    problem: str = "",
    sent: FormData | None = None,
) -> Response:
    registered = registration.registrations(db, actor, name)
    event = events.show_event(db, actor, name)
    found = boards.list_boards(db, actor)
    return render(
        request,
        "event_organise.html",
        status=400 if problem else 200,
        problem=problem,
        event=event,
        settings=[
            (
                each,
                shape_of(each),
                shown_value(getattr(event, each.name)) if sent is None else text_of(sent, each.key),
            )
            for each in SETTINGS.given.parts
        ],
        boards=events.list_boards_of(db, event, actor),
        free=[each.name for each in found if not each.event and access.manages_board(actor, each)],
        registered=registered,
    )


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
