"""The public state of the service: devices, queues, and recent incidents and repairs.

It names no machines and no people, and reveals nothing about single leaderboards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kernelcup import __version__
from kernelcup.app.machines import outages
from kernelcup.app.machines.queries import machines, reservations, status
from kernelcup.app.operation import operation
from kernelcup.app.queue.estimates import DeviceQueue, queue_status
from kernelcup.app.rules.queries import pauses
from kernelcup.domain import Device, PauseScope
from kernelcup.domain.answers import DeviceFault, Reservation
from kernelcup.engine import Database

LOOKS_BACK = timedelta(days=14)
SLOW = "its reference kernel was not as fast as usual"


class IncidentKind(StrEnum):
    """The kind of an incident."""

    MAINTENANCE = "maintenance"
    DRIFT = "drift"
    REPAIRED = "repaired"
    OUTAGE = "outage"


@dataclass(frozen=True, kw_only=True, slots=True)
class Incident:
    """A problem or a repair."""

    kind: IncidentKind
    device: str
    """Empty if it concerns the whole service."""
    since: datetime
    until: datetime | None
    """None while it lasts, and for an incident without duration."""
    open: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A time at which machines judge for one leaderboard only, or not at all."""

    devices: tuple[str, ...]
    machines: int
    """How many."""
    is_maintenance: bool
    begins_at: datetime
    ends_at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceState(DeviceQueue):
    """The current state of a device."""

    description: str
    out_of_service: int
    """GPUs out of service."""
    calibrated_at: datetime | None
    calibrations: int
    """In the period of the page."""
    drifts: int
    """Calibrations of the last days whose reference kernel was slower than usual."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """The current state of the service, and its recent incidents."""

    paused: str | None
    """The reason of a pause; None if the service accepts submissions."""
    devices: tuple[DeviceState, ...]
    incidents: tuple[Incident, ...]
    """The newest first."""
    notices: tuple[Notice, ...]
    """What is announced or lasts, the first one first."""
    since: datetime
    version: str
    """Of KernelCup."""


@operation("GET", "/devices", subject="queue")
def list_devices(known_devices: Sequence[Device]) -> list[Device]:
    """List the devices that are configured here."""
    return list(known_devices)


@operation("GET", "/status", subject="trust")
def read_status(db: Database, known_devices: Sequence[Device], now: datetime) -> Status:
    """Show devices, queues, and the incidents and repairs of the last 14 days."""
    since = now - LOOKS_BACK
    queues = {each.device: each for each in queue_status(db, now)}
    told = {each.name: each.description for each in known_devices}
    for name in told:
        queues.setdefault(name, DeviceQueue(device=name))
    out = outages.outages(db, now=now)
    with db.read() as session:
        steps = status.steps(session, devices=list(queues), since=since)
        measured = status.measured(session, since=since)
        stopped = pauses.every(session)
        reserved = reservations.since(session, now)
        slots = {each.name: each.slots for each in machines.every(session)}
    service = next((each for each in stopped if each.scope is PauseScope.SERVICE), None)
    found = [*_maintenance(steps), *_drifts(measured)]
    found += [_lasting(IncidentKind.OUTAGE, each.device, each.since, None, each.reason) for each in out]
    return Status(
        paused=None if service is None else service.reason,
        devices=tuple(
            _state(queues[name], told.get(name, ""), out, measured) for name in sorted(queues, key=str.lower)
        ),
        incidents=tuple(sorted(found, key=lambda each: each.since, reverse=True)),
        notices=tuple(_notices(reserved, slots)),
        since=since,
        version=__version__,
    )


def _notices(reserved: Sequence[Reservation], slots: Mapping[str, Mapping[str, int]]) -> Iterator[Notice]:
    """Join the reservations of several machines for one time and purpose."""
    together: dict[tuple[datetime, datetime, bool, str], list[str]] = {}
    for each in reserved:
        key = (each.begins_at, each.ends_at, each.board_id is None, each.reason)
        together.setdefault(key, []).append(each.machine)
    for (begins_at, ends_at, is_maintenance, reason), names in together.items():
        yield Notice(
            devices=tuple(sorted({device for name in names for device in slots[name]})),
            machines=len(set(names)),
            is_maintenance=is_maintenance,
            begins_at=begins_at,
            ends_at=ends_at,
            reason=reason,
        )


def _state(
    queue: DeviceQueue, description: str, out: Sequence[DeviceFault], measured: Sequence[status.Measured]
) -> DeviceState:
    mine = [each for each in measured if each.device == queue.device]
    return DeviceState(
        **dataclasses.asdict(queue),
        description=description,
        out_of_service=sum(each.device == queue.device for each in out),
        calibrated_at=mine[-1].at if mine else None,
        calibrations=len(mine),
        drifts=sum(not each.good for each in mine),
    )


def _maintenance(steps: Sequence[status.Step]) -> Iterator[Incident]:
    """Pair the beginnings and ends of pauses; a repair by an operator has no duration."""
    begun: dict[str, status.Step] = {}
    ended: list[tuple[status.Step, datetime | None]] = []
    for step in steps:
        if step.action == "device.up":
            repaired = _lasting(IncidentKind.REPAIRED, _device(step), step.at, None, "back in service")
            yield dataclasses.replace(repaired, open=False)
        elif step.action.endswith(".pause"):
            begun.setdefault(step.target.lower(), step)
        elif (start := begun.pop(step.target.lower(), None)) is not None:
            ended.append((start, step.at))
    for start, until in [*ended, *((start, None) for start in begun.values())]:
        yield _lasting(IncidentKind.MAINTENANCE, _device(start), start.at, until, start.reason)


def _device(step: status.Step) -> str:
    return step.target.partition(":")[2]


def _lasting(
    kind: IncidentKind, device: str, since: datetime, until: datetime | None, reason: str
) -> Incident:
    return Incident(kind=kind, device=device, since=since, until=until, open=until is None, reason=reason)


def _drifts(measured: Sequence[status.Measured]) -> Iterator[Incident]:
    """Join consecutive calibrations that had drifted; the next good one ends the incident."""
    begun: dict[str, datetime] = {}
    for each in measured:
        if not each.good:
            begun.setdefault(each.device, each.at)
        elif each.device in begun:
            yield _lasting(IncidentKind.DRIFT, each.device, begun.pop(each.device), each.at, SLOW)
    yield from (_lasting(IncidentKind.DRIFT, device, at, None, SLOW) for device, at in begun.items())
