"""How much was submitted and judged, of the service or of one leaderboard."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kernelcup.app.stats import stats
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

SINCE = ((0, "All"), (30, "30 days"), (7, "7 days"), (1, "1 day"))
LONGEST_DAYS = 3650


@router.get("/figures")
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
