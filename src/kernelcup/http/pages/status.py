"""The state of the service and its last days."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kernelcup.app.status import LOOKS_BACK, read_status
from kernelcup.http.dependencies import Db, Now, PlatformDep
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/status")
def show_status(request: Request, platform: PlatformDep, db: Db, now: Now) -> Response:
    """Show devices, queues, and what went wrong or was repaired lately."""
    found = read_status(db, platform.config.devices, now)
    return render(request, "status.html", found=found, days=LOOKS_BACK.days)
