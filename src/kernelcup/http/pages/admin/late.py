"""Late exceptions of a leaderboard: users who may submit for longer than others."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app.boards import boards, late_exceptions
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.admin.forms import Fields, add_form, perform, text_of
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin/boards", route_class=PageRoute)

MOST_SHOWN = 500


@router.get("/{name}/late")
def show_late(name: str, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show who may submit until when."""
    return _page(request, db, actor, now, name)


@router.post("/{name}/late")
def grant_late(
    name: str, request: Request, db: Db, actor: ActorDep, given: Provided, fields: Fields
) -> Response:
    """Let a user submit until a moment, or until another one than before."""
    boards.check_manages(db, actor, name)
    try:
        perform(late_exceptions.grant_late, fields, given, board=name)
    except (InvalidValue, NotFound) as error:
        said = {"user": text_of(fields, "user"), "until": text_of(fields, "until")}
        return _page(request, db, actor, given["now"], name, problem=str(error), **said)
    return RedirectResponse(address("/admin/boards", name, "late"), 303)


add_form(router, "/{name}/late/revoke", late_exceptions.revoke_late, "/admin/boards/{name}/late")


def _page(
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    name: str,
    *,
    problem: str = "",
    user: str = "",
    until: str = "",
) -> Response:
    found = late_exceptions.late_exceptions(db, actor, name)
    return render(
        request,
        "admin/late.html",
        status=400 if problem else 200,
        board=boards.get_board(db, name, viewer=actor),
        exceptions=found[:MOST_SHOWN],
        more=max(len(found) - MOST_SHOWN, 0),
        now=now,
        problem=problem,
        user=user,
        until=until,
    )
