"""The page of an event: its text and table of points, who is first on its leaderboards, registration and teams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.events import announcements, events, points, registration
from kernelcup.app.events.settings import parse_field
from kernelcup.app.machines.placement import is_lent_only
from kernelcup.app.results import standings
from kernelcup.app.results.runs import costs
from kernelcup.domain import Actor
from kernelcup.engine.database import Database
from kernelcup.errors import NotFound, UserError
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, perform, text_of
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import classes_text, points_rule

router = APIRouter(route_class=PageRoute)

SHOWN = 3
LONGEST_NUMBER = 10
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
"""The operations that the page's forms do, by the last part of their addresses."""


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
    if form == "answer":
        number = text_of(fields, "question")
        fixed["question"] = int(number) if number.isdecimal() and len(number) < LONGEST_NUMBER else 0
    try:
        perform(FORMS[form], fields, given, event=event.name, **fixed)
    except UserError as error:
        return _page(name, request, db, actor, now, problem=str(error))
    return RedirectResponse(f"/e/{event.name}#{text_of(fields, 'at')}", 303)


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
