"""Every result that was flagged or reviewed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kernelcup.app.results import docket
from kernelcup.domain import LARGEST_ID
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

SHOWN = 50


@router.get("/docket")
def show_docket(
    request: Request,
    db: Db,
    actor: ActorDep,
    board: Annotated[str | None, Query(max_length=200)] = None,
    before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
) -> Response:
    """Show reviewed results of all leaderboards that the reader sees, or of one."""
    found = docket.entries(db, actor, board=board, before_id=before, limit=SHOWN + 1)
    shown = found[:SHOWN]
    older = shown[-1].id if len(found) > SHOWN else None
    return render(request, "docket.html", entries=shown, older=older, board=board)
