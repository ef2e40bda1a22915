"""The webhooks of a leaderboard, for those who manage it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from kernelcup.app.boards import boards
from kernelcup.app.news import webhooks
from kernelcup.domain import Actor
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.pages.admin.forms import Fields, add_form, perform
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

NO_STORE = {"Cache-Control": "no-store"}


def webhooks_page(
    request: Request, db: Database, actor: Actor, name: str, status: int = 200, **told: Any
) -> Response:
    """Return the list of webhooks with what just came of one of its forms."""
    found = webhooks.list_webhooks(db, actor, name)
    known = {"problem": "", "made": None} | told
    return render(
        request,
        "webhooks.html",
        status=status,
        headers=NO_STORE,
        board=boards.get_board(db, name, viewer=actor),
        webhooks=found,
        **known,
    )


@router.get("/b/{name}/webhooks")
def show_webhooks(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Show where the news of a leaderboard are sent, and whether that works."""
    return webhooks_page(request, db, actor, name)


@router.post("/b/{name}/webhooks")
def add_webhook(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    fields: Fields,
    given: Provided,
) -> Response:
    """Register a webhook and show its secret this once."""
    try:
        made = perform(webhooks.add_webhook, fields, given, board=name)
    except (InvalidValue, Conflict) as error:
        return webhooks_page(request, db, actor, name, 400, problem=str(error))
    return webhooks_page(request, db, actor, name, made=made)


for _what, _call in (("enable", webhooks.enable_webhook), ("remove", webhooks.remove_webhook)):
    add_form(router, f"/b/{{name}}/webhooks/{{webhook_id}}/{_what}", _call, "/b/{name}/webhooks")
