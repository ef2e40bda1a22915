"""Reads ncu's raw page: one line for each launch, with the counters that rules read under names of our own.

Names of columns differ between versions of ncu; ``counters.toml`` is the only place that knows them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from functools import cache

from kernelcup_harness.protocol import KernelCounters
from kernelcup_harness.protocol.data_files import read_table

TENSOR_FLOPS = re.compile(r"sm__ops_path_tensor_src_(?!int1\.)\w+\.sum")
"""Operations of the tensor cores by the type of their input; their sum is kept."""
NEEDED = frozenset({"time_ns"})
"""Other counters are missing in smaller sets of sections, on other devices, or in other versions."""
MOST_LAUNCHES = 2_000
MOST_NAME = 300
FIRST_COLUMN = '"ID"'


class UnreadableReport(Exception):
    """A report has no launches, or no number where one is needed; the text names ncu's version."""


@cache
def columns() -> dict[str, str]:
    """Return ncu's names of counters by ours."""
    return read_table(__package__, "counters.toml")


def read(page: bytes, version: str) -> list[KernelCounters]:
    """Return the launches of a raw page. Raise :class:`UnreadableReport`."""
    text = page.decode("utf-8", "replace")
    table = csv.DictReader(io.StringIO(text[max(0, text.find(FIRST_COLUMN)) :]), restval="")
    try:
        # The first line below the names has the units, which were asked for.
        lines = [line for number, line in enumerate(table) if number and line.get("ID", "").isdigit()]
    except csv.Error as error:
        raise UnreadableReport(f"{version} gives a page that cannot be read: {error}") from error
    if not lines:
        raise UnreadableReport(f"{version} has captured no kernel")
    return [launch(line, version) for line in lines[:MOST_LAUNCHES]]


def launch(line: dict[str, str], version: str) -> KernelCounters:
    """Return one launch. Raise :class:`UnreadableReport`."""
    name = (line.get("Kernel Name") or "?")[:MOST_NAME]
    found = {}
    for ours, theirs in columns().items():
        value = number(line.get(theirs))
        if value is not None:
            found[ours] = value
        elif theirs in line and line[theirs].strip().lower() == "nan":
            raise UnreadableReport(f"{version} gives NaN for {theirs} of kernel {name}")
        elif ours in NEEDED:
            raise UnreadableReport(f"{version} does not give {theirs} of kernel {name}")
    tensor = [number(value) or 0.0 for key, value in line.items() if TENSOR_FLOPS.fullmatch(key or "")]
    if tensor:
        found["tensor_flops"] = sum(tensor)
    return KernelCounters(
        name=name, grid=sizes(line.get("Grid Size")), block=sizes(line.get("Block Size")), counters=found
    )


def number(text: str | None) -> float | None:
    """Return a finite number, None for anything else."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def sizes(text: str | None) -> list[int]:
    """Return the numbers of ``(64, 1, 1)``."""
    return [int(each) for each in re.findall(r"\d{1,10}", text or "")[:3]]
