"""The page of an event: its text, its table of points, and who is first on its leaderboards."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kernelcup.app.events import events, points
from kernelcup.app.machines.placement import is_lent_only
from kernelcup.app.results import standings
from kernelcup.app.results.runs import costs
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import classes_text, points_rule

router = APIRouter(route_class=PageRoute)

SHOWN = 3


@router.get("/e/{name}")
def show_event(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show an event with its table of points, and who is first on each device of its leaderboards."""
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
        event=event,
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
