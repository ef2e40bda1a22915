"""The state of the service: its last days, and the queues of devices."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from kernelcup.app.queue.estimates import DeviceQueue, queue_status
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


@router.get("/queue")
def show_queue(request: Request, platform: PlatformDep, db: Db, now: Now) -> Response:
    """Show the queue of each device that is configured or served."""
    queues = {each.device: each for each in queue_status(db, now)}
    for device in platform.config.devices:
        queues.setdefault(device.name, DeviceQueue(device=device.name))
    told = {each.name: each.description for each in platform.config.devices}
    return render(
        request, "queue.html", queues=sorted(queues.values(), key=lambda each: each.device), told=told
    )
