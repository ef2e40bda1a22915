"""``kernelcup devices``: the devices, and the GPUs that are out of service."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show import calibration
from kernelcup.cli.show.output import fields, json_object
from kernelcup.domain import Device
from kernelcup.errors import Forbidden, InvalidValue, ScopeMissing, SignInNeeded

if TYPE_CHECKING:
    from kernelcup.config.settings import Config
    from kernelcup.domain.answers import DeviceFault
    from kernelcup.engine.database import Database

FACTS = ("name", "backend", "launcher", "slots")


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
        lambda _: list_there(backend, history, as_json=as_json),
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
    rows = [json_object(each, *FACTS, free=free_slots(settings, each, out)) for each in settings.devices]
    if as_json:
        body = {
            "devices": rows,
            "out_of_service": [fields(fault) for fault in out],
            "calibrations": [calibration.as_object(latest, past) for latest, past in known],
        }
        typer.echo(json.dumps(body))
        return
    show("Devices of this machine", ["free"], rows, out)
    calibration.show(known)
    if history and not known:
        typer.echo("No device has been calibrated yet; `kernelcup serve` calibrates when it starts.")


def list_there(backend: Backend, history: int, *, as_json: bool) -> None:
    """Print a server's devices. Its calibrations stay on its machine."""
    from kernelcup.app import status
    from kernelcup.app.queue import estimates

    if history:
        raise InvalidValue(
            f"--history: {backend.server} does not publish calibrations; on its machine: kernelcup devices "
            "--local --history N"
        )
    counts = ("queued", "running")
    queues = {each.device: json_object(each, *counts) for each in backend.call(estimates.queue_status)}
    known = [json_object(each, *FACTS) for each in backend.call(status.list_devices)]
    rows = [each | queues.get(each["name"], dict.fromkeys(counts, 0)) for each in known]
    out = outages_there(backend)
    if as_json:
        faults = None if out is None else [fields(fault) for fault in out]
        typer.echo(json.dumps({"server": backend.server, "devices": rows, "out_of_service": faults}))
        return
    show(f"Devices of {backend.server}", counts, rows, out or [])


def outages_there(backend: Backend) -> list[DeviceFault] | None:
    """Return the GPUs that are out of service at a server; None if only its admins may know."""
    from kernelcup.app.machines.outages import outages

    try:
        return backend.call(outages)
    except (Forbidden, ScopeMissing, SignInNeeded):
        return None


def show(
    title: str, counts: Sequence[str], rows: Sequence[Mapping[str, Any]], out: Sequence[DeviceFault]
) -> None:
    """Print tables for people."""
    from kernelcup.cli.show import tables, terminal

    columns = ("device", *FACTS[1:], *counts)
    table = tables.new_table(*columns, right=columns[3:])
    for row in rows:
        table.add_row(*(tables.cell("-" if value is None else value) for value in row.values()))
    tables.print_table(terminal.console(), title, table, drop=("launcher", "backend"))
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
    slots.left_out = frozenset(fault.gpu for fault in out if fault.machine == socket.gethostname())
    return slots.free(device)
