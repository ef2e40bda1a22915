"""The first pages of creators and admins: what waits for them, who did what, and how much was judged."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.people import audit_log
from kernelcup.app.results import reviews
from kernelcup.app.rules import pauses
from kernelcup.app.stats import stats
from kernelcup.app.submissions import withdrawal
from kernelcup.domain import LARGEST_ID, Role, Scope
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages.admin.new_boards import shipped_choices
from kernelcup.http.pages.rendering import address, render
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


PER_PAGE = 50


@router.get("/admin/audit")
def show_audit(
    request: Request,
    db: Db,
    actor: ActorDep,
    target: Annotated[str, Query(max_length=200)] = "",
    action: Annotated[str, Query(max_length=100)] = "",
    before: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
) -> Response:
    """List what was done, the newest first."""
    found = audit_log.entries(
        db,
        actor,
        target=target or None,
        action=action or None,
        before_id=before or None,
        limit=PER_PAGE + 1,
    )
    shown = found[:PER_PAGE]
    older = ""
    if len(found) > PER_PAGE:
        older = address("/admin/audit", target=target, action=action, before=str(shown[-1].id))
    return render(request, "admin/audit.html", rows=shown, target=target, action=action, older=older)


SINCE = ((0, "All"), (30, "30 days"), (7, "7 days"), (1, "1 day"))
LONGEST_DAYS = 3650


@router.get("/admin/figures")
def show_stats(
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    leaderboard: Annotated[str, Query(max_length=200)] = "",
    days: Annotated[int, Query(ge=0, le=LONGEST_DAYS)] = 0,
) -> Response:
    """Show figures of one leaderboard to those who manage it, of all to admins."""
    since = now - timedelta(days=days) if days else None
    found = stats(db, actor, now=now, board=leaderboard or None, since=since)
    periods = [
        (address("/admin/figures", leaderboard=found.board or "", days=str(each or "")), words, each == days)
        for each, words in SINCE
    ]
    return render(request, "admin/stats.html", found=found, periods=periods, days=days)
