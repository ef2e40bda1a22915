"""``kernelcup devices`` and ``kernelcup admin device-up``: the devices, and the GPUs that are out of service."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show import calibration
from kernelcup.cli.show.plain_text import plain
from kernelcup.client.requests import path_of, reader
from kernelcup.domain import Device
from kernelcup.errors import Forbidden, InvalidValue, NotFound, ScopeMissing, SignInNeeded

if TYPE_CHECKING:
    from kernelcup.app.machines.queries.outages import DeviceFault
    from kernelcup.client.api import Api
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database


@with_backend
def devices(
    backend: Backend,
    history: Annotated[
        int, typer.Option("--history", min=0, max=1000, help="Show the newest N calibrations of each device.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the devices, and the GPUs that are out of service.

    With a server: its devices and their queues. Otherwise: this machine's devices, and the calibrations
    of all machines.
    """
    backend.ask(
        lambda db: list_here(db, backend.config, history, as_json=as_json),
        lambda api: list_there(api, history, as_json=as_json),
    )


def list_here(db: Database, settings: Config, history: int, *, as_json: bool) -> None:
    """Print this machine's devices."""
    from kernelcup.app.machines import calibrations
    from kernelcup.app.machines.outages import outages

    out = outages(db, now=datetime.now(UTC))
    known = [
        (latest, calibrations.history(db, latest, limit=history) if history else [])
        for latest in calibrations.newest(db)
    ]
    rows = [(device, free_slots(settings, device, out)) for device in settings.devices]
    if as_json:
        body = {
            "devices": [device_object(device, free) for device, free in rows],
            "out_of_service": [fault_object(fault) for fault in out],
            "calibrations": [calibration.as_object(latest, past) for latest, past in known],
        }
        typer.echo(json.dumps(body))
        return
    show(rows, out)
    calibration.show(known)
    if history and not known:
        typer.echo("No device has been calibrated yet; `kernelcup serve` calibrates when it starts.")


def list_there(api: Api, history: int, *, as_json: bool) -> None:
    """Print a server's devices. Its calibrations stay on its machine."""
    if history:
        raise InvalidValue(
            f"--history: {api.server} does not publish calibrations; on its machine: kernelcup devices "
            "--local --history N"
        )
    facts, counts = ("name", "backend", "launcher", "slots"), ("queued", "running")
    known = api.ask(lambda body: [{key: each[key] for key in facts} for each in body], "GET", "/devices")
    queues = api.ask(
        lambda body: {each["device"]: {key: each[key] for key in counts} for each in body}, "GET", "/queue"
    )
    rows = [each | queues.get(each["name"], dict.fromkeys(counts, 0)) for each in known]
    out = outages_there(api)
    if as_json:
        faults = None if out is None else [fault_object(fault) for fault in out]
        typer.echo(json.dumps({"server": api.server, "devices": rows, "out_of_service": faults}))
        return
    show_there(api.server, rows, out or [])


def outages_there(api: Api) -> list[DeviceFault] | None:
    """Return the GPUs that are out of service at a server; None if only its admins may know."""
    from kernelcup.app.machines.queries.outages import DeviceFault

    try:
        return api.ask(reader(list[DeviceFault]), "GET", "/devices/outages")
    except (Forbidden, ScopeMissing, SignInNeeded):
        return None


def show_there(server: str, rows: Sequence[dict[str, Any]], out: Sequence[DeviceFault]) -> None:
    """Print a server's devices for people."""
    from kernelcup.cli.show import tables, terminal

    console = terminal.console()
    columns = ("device", "backend", "launcher", "slots", "queued", "running")
    table = tables.new_table(*columns, right=columns[3:])
    for row in rows:
        table.add_row(*(tables.cell(value) for value in row.values()))
    tables.print_table(console, f"Devices of {server}", table, drop=("launcher", "backend"))
    show_outages(out)


def show(rows: Sequence[tuple[Device, int | None]], out: Sequence[DeviceFault]) -> None:
    """Print tables for people."""
    from kernelcup.cli.show import tables, terminal

    console = terminal.console()
    table = tables.new_table("device", "backend", "launcher", "slots", "free", right=("slots", "free"))
    for device, free in rows:
        cells = (device.name, device.backend.value, device.launcher, device.slots)
        table.add_row(*map(tables.cell, (*cells, "-" if free is None else free)))
    tables.print_table(console, "Devices of this machine", table, drop=("launcher", "backend"))
    show_outages(out)


def show_outages(out: Sequence[DeviceFault]) -> None:
    """Print the GPUs that are out of service, if any."""
    from kernelcup.cli.show import tables, terminal

    if not out:
        return
    table = tables.new_table("device", "machine", "gpu", "since", "next look", "reason")
    for fault in out:
        moments = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (fault.since, fault.next_look_at))
        cells_out = (fault.device, fault.machine, fault.gpu, *moments, fault.reason)
        table.add_row(*map(tables.cell, cells_out))
    drop = ("next look", "since")
    tables.print_table(terminal.console(), "Out of service", table, "times in UTC", drop=drop)


def free_slots(settings: Config, device: Device, out: Sequence[DeviceFault]) -> int | None:
    """Return the number of jobs that could start now; None for devices of other launchers."""
    from kernelcup.launchers.local.gpu_locks import Slots

    if not device.is_here:
        return None
    slots = Slots(settings.runtime_dir, settings.slot_gpus)
    slots.leave_out(frozenset(fault.gpu for fault in out if fault.machine == socket.gethostname()))
    return slots.free(device)


def device_object(device: Device, free: int | None) -> dict[str, Any]:
    """Return a device as the object that ``--json`` prints."""
    return {
        "name": device.name,
        "backend": device.backend.value,
        "launcher": device.launcher,
        "slots": device.slots,
        "free": free,
    }


def fault_object(fault: DeviceFault) -> dict[str, Any]:
    """Return a GPU that is out of service as ``--json`` prints it."""
    return {
        "device": fault.device,
        "machine": fault.machine,
        "gpu": fault.gpu,
        "reason": fault.reason,
        "since": fault.since.isoformat(),
        "next_look_at": fault.next_look_at.isoformat(),
    }


@with_backend
def device_up(
    backend: Backend,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="Name of the device.")],
    machine: Annotated[
        str | None, typer.Option("--machine", help="Only on this machine; default: on all machines.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Put a device's GPUs back into service now.

    You vouch for them: later jobs are checked against the memory in use at this moment.
    """
    from kernelcup.app.machines.outages import bring_back

    with wiring.pointing_to(f"kernelcup devices{backend.option}", NotFound):
        back = backend.ask(
            lambda db: bring_back(db, device, machine=machine, now=datetime.now(UTC)),
            lambda api: bring_back_there(api, device, machine),
        )
    if as_json:
        typer.echo(json.dumps({"in_service": [fault_object(fault) for fault in back]}))
        return
    for fault in back:
        typer.echo(plain(f"GPU {fault.gpu} of {fault.machine} ({fault.device}) is in service again"))


def bring_back_there(api: Api, device: str, machine: str | None) -> list[DeviceFault]:
    """Have a server put a device's GPUs back into service."""
    from kernelcup.app.machines.queries.outages import DeviceFault

    only = {} if machine is None else {"machine": machine}
    return api.ask(reader(list[DeviceFault]), "POST", path_of("devices", device, "up"), params=only)
