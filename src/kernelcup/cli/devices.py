"""``kernelcup devices`` and ``kernelcup admin device-up``: what can be judged on, and what cannot now."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelcup.config import Config
    from kernelcup.domain import Device
    from kernelcup.storage.faults import DeviceFault

admin = typer.Typer(help="What operators do, and who manages leaderboards.", no_args_is_help=True)


@admin.callback()
def root() -> None:
    """What operators do, and who manages leaderboards."""


def devices(
    history: Annotated[
        int, typer.Option("--history", min=0, max=1000, help="Show so many calibrations of each device.")
    ] = 0,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List this machine's devices, what all machines' can do, and the GPUs that are out of service."""
    from kernelcup.cli import calibration_text, platform
    from kernelcup.services import calibrations
    from kernelcup.services.fitness import outages

    settings = platform.load_config(config)
    with platform.open_database(settings) as db:
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
            "calibrations": [calibration_text.as_object(latest, past) for latest, past in known],
        }
        typer.echo(json.dumps(body))
        return
    show(rows, out)
    calibration_text.show(known)
    if history and not known:
        typer.echo("Nothing was calibrated yet; `kernelcup serve` does it when it starts.")


def show(rows: Sequence[tuple[Device, int | None]], out: Sequence[DeviceFault]) -> None:
    """Print tables for people."""
    from kernelcup.cli import render

    console = render.console()
    table = render.new_table("device", "backend", "launcher", "slots", "free", right=("slots", "free"))
    for device, free in rows:
        cells = (device.name, device.backend.value, device.launcher, device.slots)
        table.add_row(*map(render.cell, (*cells, "-" if free is None else free)))
    render.print_table(console, "Devices of this machine", table)
    if not out:
        return
    table = render.new_table("device", "machine", "gpu", "since", "next look", "reason")
    for fault in out:
        moments = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (fault.since, fault.next_look_at))
        cells_out = (fault.device, fault.machine, fault.gpu, *moments, fault.reason)
        table.add_row(*map(render.cell, cells_out))
    render.print_table(console, "Out of service", table, "times in UTC")


def free_slots(settings: Config, device: Device, out: Sequence[DeviceFault]) -> int | None:
    """Return how many jobs could start now; None for devices of other launchers."""
    from kernelcup.cli import platform
    from kernelcup.launchers.slots import Slots

    if device.launcher != platform.LOCAL:
        return None
    slots = Slots(settings.runtime_dir, settings.slot_gpus)
    slots.leave_out(frozenset(fault.gpu for fault in out if fault.machine == socket.gethostname()))
    return slots.free(device)


def device_object(device: Device, free: int | None) -> dict[str, Any]:
    """Return a device as ``--json`` prints it."""
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


@admin.command("device-up")
def device_up(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="Name of the device.")],
    machine: Annotated[
        str | None, typer.Option("--machine", help="Only on this machine; default: on all.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Put a device's GPUs back into service now.

    You vouch for them: the memory that is in use then is what later jobs are compared with.
    """
    from kernelcup.cli import platform
    from kernelcup.cli.texts import plain
    from kernelcup.errors import NotFound
    from kernelcup.services.fitness import bring_back

    with (
        platform.open_database(platform.load_config(config)) as db,
        platform.pointing_to("kernelcup devices", NotFound),
    ):
        back = bring_back(db, device, machine=machine, now=datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps({"in_service": [fault_object(fault) for fault in back]}))
        return
    for fault in back:
        typer.echo(plain(f"GPU {fault.gpu} of {fault.machine} ({fault.device}) is in service again"))
