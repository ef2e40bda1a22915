"""A leaderboard's first template as text."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from kernelcup.app.submissions.handout import hand_out
from kernelcup.errors import NotFound
from kernelcup.http.api.forms import TEXT
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.route import ApiRoute

router = APIRouter(prefix="/leaderboards/{name}", tags=["tasks"], route_class=ApiRoute)


@router.get("/starter", response_class=Response, responses=TEXT)
def show_starter(name: str, db: Db, actor: ActorDep) -> PlainTextResponse:
    """Return the first template, ready to submit."""
    task = hand_out(db, name, actor).task
    if not task.templates:
        raise NotFound(f"{task.name} has no template.")
    return PlainTextResponse(next(iter(task.templates.values())))
