"""Who used which right."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kernelcup.app.people import audit_log
from kernelcup.domain import LARGEST_ID
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

PER_PAGE = 50


@router.get("/audit")
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
