"""Queues and devices."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from kernelcup.app import access
from kernelcup.app.machines import outages
from kernelcup.app.queue.estimates import queue_status
from kernelcup.domain import Role, Scope
from kernelcup.http.api.forms import QueueOut, Shown
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.route import ApiRoute

router = APIRouter(tags=["queue"], route_class=ApiRoute)


class DeviceOut(Shown):
    """A named kind of accelerator."""

    name: str
    backend: str
    launcher: str
    slots: int
    description: str


class OutageOut(Shown):
    """A GPU that is out of service."""

    device: str
    machine: str
    gpu: str
    reason: str
    since: datetime
    next_look_at: datetime


@router.get("/queue")
def show_queue(db: Db, now: Now) -> list[QueueOut]:
    """Show the queue of each device."""
    return [QueueOut.of(each) for each in queue_status(db, now)]


@router.get("/devices")
def list_devices(platform: PlatformDep) -> list[DeviceOut]:
    """List the devices that are configured here."""
    return [DeviceOut.of(each) for each in platform.config.devices]


@router.get("/devices/outages")
def list_outages(db: Db, actor: ActorDep, now: Now) -> list[OutageOut]:
    """List the GPUs that are out of service. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    return [OutageOut.of(each) for each in outages.outages(db, now=now)]


@router.post("/devices/{name}/up")
def bring_up(name: str, db: Db, actor: ActorDep, now: Now, machine: str | None = None) -> list[OutageOut]:
    """Put a device's GPUs back into service; you vouch for them. For admins."""
    back = outages.bring_back(db, name, machine=machine, actor=actor, now=now)
    return [OutageOut.of(each) for each in back]
