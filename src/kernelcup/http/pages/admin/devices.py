"""Devices, for admins: what waits, what is out of service, what calibrations found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kernelcup.app import access
from kernelcup.app.machines import calibrations, machines, outages, reservations
from kernelcup.app.queue.estimates import queue_status
from kernelcup.app.rules import pauses
from kernelcup.domain import PauseScope, Role, Scope
from kernelcup.errors import NotFound
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages.admin.forms import add_form
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

FORMS: tuple[tuple[str, Callable[..., Any], dict[str, Any]], ...] = (
    ("/machines/{name}/drain", machines.change, {"is_draining": True}),
    ("/machines/{name}/resume", machines.change, {"is_draining": False}),
    ("/machines/{name}/remove", machines.remove, {}),
    ("/reservations/{reservation_id}/release", reservations.cancel, {}),
    ("/devices/{key}/pause", pauses.pause, {"scope": PauseScope.DEVICE}),
    ("/devices/{key}/unpause", pauses.unpause, {"scope": PauseScope.DEVICE}),
    ("/devices/{name}/up", outages.bring_back, {}),
    ("/service/pause", pauses.pause, {"scope": PauseScope.SERVICE, "key": ""}),
    ("/service/unpause", pauses.unpause, {"scope": PauseScope.SERVICE, "key": ""}),
)
for _path, _call, _fixed in FORMS:
    add_form(router, _path, _call, "/admin/devices", **_fixed)


@router.get("/devices")
def show_devices(request: Request, platform: PlatformDep, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show queues, pauses, outages and the calibrations in force."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    queues = {each.device: each for each in queue_status(db, now)}
    paused = pauses.list_pauses(db, actor)
    newest = calibrations.newest(db)
    names = sorted({*(each.name for each in platform.config.devices), *queues})
    return render(
        request,
        "admin/devices.html",
        names=names,
        queues=queues,
        told={each.name: each.description for each in platform.config.devices},
        pauses={each.key: each for each in paused if each.scope is PauseScope.DEVICE},
        service=next((each for each in paused if each.scope is PauseScope.SERVICE), None),
        outages=outages.outages(db, now=now),
        machines=machines.list_machines(db, actor, now=now),
        reservations=reservations.list_reservations(db, actor, now=now),
        calibrations=newest,
        scale=TimeScale.of(each.found.canary_ns / 1e9 for each in newest),
    )


@router.get("/calibrations")
def show_calibrations(
    request: Request,
    db: Db,
    actor: ActorDep,
    machine: Annotated[str, Query(max_length=200)],
    device: Annotated[str, Query(max_length=100)],
    gpu: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Show what calibrations of one GPU found, the newest first."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    wanted = (machine, gpu, device)
    newest = [each for each in calibrations.newest(db) if (each.machine, each.gpu, each.device) == wanted]
    if not newest:
        raise NotFound(f"There is no calibration of {device} on {machine}.")
    found = calibrations.history(db, newest[0], limit=50)
    return render(
        request,
        "admin/calibrations.html",
        newest=newest[0],
        history=found,
        scale=TimeScale.of(each.found.canary_ns / 1e9 for each in found),
    )
