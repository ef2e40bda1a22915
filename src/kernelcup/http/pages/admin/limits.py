"""Submission limits per period."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app.boards import boards
from kernelcup.app.rules import limits
from kernelcup.domain import ModeGroup
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Number, PlatformDep
from kernelcup.http.pages.admin.forms import Fields, perform, text_of
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

BoardName = Annotated[str, Query(max_length=200)]


@router.get("/limits")
def list_limits(
    request: Request, platform: PlatformDep, actor: ActorDep, leaderboard: BoardName = ""
) -> Response:
    """List all limits to admins, or those of one leaderboard."""
    return _page(request, platform, actor, leaderboard)


@router.post("/limits")
def add_limit(
    request: Request, platform: PlatformDep, actor: ActorDep, given: Provided, fields: Fields
) -> Response:
    """Add a limit; what is empty applies to all."""
    leaderboard = text_of(fields, "leaderboard")
    try:
        perform(limits.add_limit, fields, given)
    except (InvalidValue, NotFound) as error:
        return _page(request, platform, actor, leaderboard, str(error))
    return RedirectResponse(_back(leaderboard), 303)


@router.post("/limits/{limit_id}/remove")
def remove_limit(limit_id: Number, given: Provided, fields: Fields) -> Response:
    """Remove a limit."""
    perform(limits.remove_limit, fields, given, limit_id=limit_id)
    return RedirectResponse(_back(text_of(fields, "leaderboard")), 303)


def _back(leaderboard: str) -> str:
    return address("/admin/limits", leaderboard=leaderboard)


def _page(
    request: Request, platform: PlatformDep, actor: ActorDep, leaderboard: str, problem: str = ""
) -> Response:
    if leaderboard:
        boards.check_manages(platform.db, actor, leaderboard)
    return render(
        request,
        "admin/limits.html",
        status=400 if problem else 200,
        limits=limits.list_limits(platform.db, actor, board=leaderboard or None),
        leaderboard=leaderboard,
        devices=[each.name for each in platform.config.devices],
        groups=list(ModeGroup),
        problem=problem,
    )
