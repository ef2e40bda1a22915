"""Devices, for admins: what waits, what is out of service, what calibrations found."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.machines import calibrations, machines, outages, reservations
from kernelcup.app.queue.estimates import queue_status
from kernelcup.app.rules import pauses
from kernelcup.domain import PauseScope, Role, Scope
from kernelcup.errors import NotFound
from kernelcup.http.dependencies import ActorDep, Db, Now, Number, PlatformDep
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute

router = APIRouter(prefix="/admin", route_class=PageRoute)

Reason = Annotated[str, Form(max_length=500)]
PAGE = "/admin/devices"


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


@router.post("/machines/{name}/drain")
def drain(name: str, db: Db, actor: ActorDep, now: Now) -> Response:
    """Let a machine end its jobs and take no more."""
    machines.change(db, name, is_draining=True, actor=actor, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/machines/{name}/resume")
def resume(name: str, db: Db, actor: ActorDep, now: Now) -> Response:
    """Let a machine take jobs again."""
    machines.change(db, name, is_draining=False, actor=actor, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/machines/{name}/remove")
def remove(name: str, db: Db, actor: ActorDep, now: Now) -> Response:
    """Forget a machine."""
    machines.remove(db, name, actor=actor, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/reservations/{reservation_id}/release")
def release(reservation_id: Number, db: Db, actor: ActorDep, now: Now) -> Response:
    """End a reservation, or one that is to come."""
    reservations.cancel(db, reservation_id, actor=actor, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/devices/{device}/pause")
def pause(device: str, db: Db, actor: ActorDep, now: Now, reason: Reason = "") -> Response:
    """Take no submissions for a device until told otherwise."""
    pauses.pause(db, actor, scope=PauseScope.DEVICE, key=device, reason=reason, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/devices/{device}/unpause")
def unpause(device: str, db: Db, actor: ActorDep, now: Now) -> Response:
    """Take submissions for a device again."""
    pauses.unpause(db, actor, scope=PauseScope.DEVICE, key=device, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/devices/{device}/up")
def bring_up(
    device: str, db: Db, actor: ActorDep, now: Now, machine: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Put a device's GPUs back into service; the admin vouches for them."""
    outages.bring_back(db, device, machine=machine or None, actor=actor, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/service/pause")
def pause_service(db: Db, actor: ActorDep, now: Now, reason: Reason = "") -> Response:
    """Take no submissions at all; what was accepted is judged."""
    pauses.pause(db, actor, scope=PauseScope.SERVICE, reason=reason, now=now)
    return RedirectResponse(PAGE, 303)


@router.post("/service/unpause")
def unpause_service(db: Db, actor: ActorDep, now: Now) -> Response:
    """Take submissions again."""
    pauses.unpause(db, actor, scope=PauseScope.SERVICE, now=now)
    return RedirectResponse(PAGE, 303)
