"""Calibrations of devices, as tables and as ``--json`` objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelcup_harness.protocol import to_json

if TYPE_CHECKING:
    from kernelcup.app.machines.queries.calibrations import CalibrationRecord

RIGHT = ("copy GB/s", "read GB/s", "launch us", "canary us", "C")


def show(known: Sequence[tuple[CalibrationRecord, Sequence[CalibrationRecord]]]) -> None:
    """Print each device's calibration in force, and earlier ones if requested."""
    from kernelcup.cli.show import tables, terminal

    if not known:
        return
    columns = ("device", "machine", "gpu", "since", *RIGHT, "matrix Tflop/s")
    table = tables.new_table(*columns, right=RIGHT)
    for latest, past in known:
        for record in past or [latest]:
            table.add_row(*map(tables.cell, cells(record)))
    tables.print_table(
        terminal.console(),
        "Calibrations",
        table,
        "times in UTC; * the canary had drifted",
        drop=("matrix Tflop/s", "C", "launch us", "since", "read GB/s", "gpu"),
    )


def cells(record: CalibrationRecord) -> tuple[str, ...]:
    """Return the cells of a row."""
    found = record.found
    rates = sorted(found.matrix_flops_per_s.items(), key=lambda rate: rate[1])
    return (
        record.device,
        record.machine,
        record.gpu or "-",
        f"{record.at:%Y-%m-%d %H:%M:%S}",
        f"{found.copy_bytes_per_s / 1e9:,.1f}",
        f"{found.read_bytes_per_s / 1e9:,.1f}",
        f"{found.launch_ns / 1e3:.2f}",
        f"{found.canary_ns / 1e3:,.1f}{'' if record.fits else ' *'}",
        "-" if found.temperature_c is None else str(found.temperature_c),
        ", ".join(f"{name} {rate / 1e12:,.3g}" for name, rate in rates),
    )


def as_object(latest: CalibrationRecord, past: Sequence[CalibrationRecord]) -> dict[str, Any]:
    """Return the calibration in force as ``--json`` prints it."""
    return {**one_object(latest), "history": [one_object(each) for each in past]}


def one_object(record: CalibrationRecord) -> dict[str, Any]:
    """Return one calibration as ``--json`` prints it."""
    place = {"id": record.id, "device": record.device, "machine": record.machine, "gpu": record.gpu}
    return {**place, "at": record.at.isoformat(), "fits": record.fits, "found": to_json(record.found)}
