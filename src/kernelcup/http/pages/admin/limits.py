"""Submission limits per period."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app.boards import boards
from kernelcup.app.rules import limits
from kernelcup.domain import ModeGroup
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.dependencies import ActorDep, Db, Now, Number, PlatformDep
from kernelcup.http.pages.addresses import address
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

Text = Annotated[str, Form(max_length=200)]
BoardName = Annotated[str, Query(max_length=200)]


@router.get("/limits")
def list_limits(
    request: Request, platform: PlatformDep, actor: ActorDep, leaderboard: BoardName = ""
) -> Response:
    """List all limits to admins, or those of one leaderboard."""
    return _page(request, platform, actor, leaderboard)


@router.post("/limits")
def add_limit(
    request: Request,
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    text: Text = "",
    leaderboard: Text = "",
    user: Text = "",
    device: Text = "",
    launcher: Text = "",
    mode_group: Text = "",
    together: Text = "",
) -> Response:
    """Add a limit; what is empty applies to all."""
    try:
        limits.add_limit(
            platform.db,
            actor,
            text=text,
            board=leaderboard or None,
            user=user or None,
            device=device or None,
            launcher=launcher or None,
            mode_group=mode_group or None,
            per_user=not together,
            now=now,
        )
    except (InvalidValue, NotFound) as error:
        return _page(request, platform, actor, leaderboard, str(error))
    return RedirectResponse(_back(leaderboard), 303)


@router.post("/limits/{limit_id}/remove")
def remove_limit(limit_id: Number, db: Db, actor: ActorDep, now: Now, leaderboard: Text = "") -> Response:
    """Take a limit back."""
    limits.remove_limit(db, actor, limit_id, now=now)
    return RedirectResponse(_back(leaderboard), 303)


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
