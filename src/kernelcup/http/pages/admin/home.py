"""The first page of creators and admins: their leaderboards, and what waits for them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.results import reviews
from kernelcup.app.rules import pauses
from kernelcup.app.submissions import withdrawal
from kernelcup.domain import Role, Scope
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages.admin.new_boards import shipped_choices
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

MOST_REVIEWS = 5


@router.get("/admin")
def show_home(request: Request, db: Db, platform: PlatformDep, actor: ActorDep, now: Now) -> Response:
    """Show the leaderboards that one manages, open reviews and pauses; on a new service, how to begin."""
    access.require(actor, Scope.INSPECT, role=Role.CREATOR)
    visible = boards.list_boards(db, viewer=actor)
    found = [each for each in visible if access.manages_board(actor, each)]
    is_new = not visible and Scope.MANAGE in actor.scopes
    waiting = reviews.open_reviews(db, actor, limit=MOST_REVIEWS + 1)
    is_admin = access.has_role(actor, Role.ADMIN) and Scope.ADMIN in actor.scopes
    return render(
        request,
        "admin/home.html",
        boards=found[::-1],
        reviews=waiting[:MOST_REVIEWS],
        more_reviews=len(waiting) > MOST_REVIEWS,
        halted=withdrawal.list_halted(db, actor) if is_admin else [],
        pauses=pauses.list_pauses(db, actor),
        problems=[each for each in platform.checks() if each.state != "ok"] if is_admin else [],
        now=now,
        is_new=is_new,
        shipped=shipped_choices(platform) if is_new else [],
        devices=[each.name for each in platform.config.devices],
    )
