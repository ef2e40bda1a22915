"""Published peaks of chips for precisions that a calibration could not measure. Nothing here was measured by us.

Dense operations a second, of the fastest variant that is sold under a name: a floor has to be a lower bound for all of
them. A measured rate goes before a published one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kernelcup_harness.protocol.data_files import read_table
from kernelcup_harness.protocol.enums import Precision

TERA = 1e12


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """A kind of GPU, as its maker describes it."""

    names: tuple[str, ...]
    """Words of which one is in the name that the driver gives it."""
    tera_a_second: dict[Precision, float]
    """Tera operations a second, dense."""
    source: str


@cache
def chips() -> tuple[Chip, ...]:
    """Return the chips of ``peaks.toml``."""
    return tuple(
        Chip(
            names=tuple(each["names"]),
            tera_a_second={Precision(name): rate for name, rate in each["tera_a_second"].items()},
            source=each["source"],
        )
        for each in read_table(__package__, "peaks.toml")["chip"]
    )


def rates(device_name: str, measured: dict[str, float]) -> dict[str, float]:
    """Return operations a second by precision: the measured rates, and published peaks where there is none."""
    found = next((chip for chip in chips() if any(name in device_name for name in chip.names)), None)
    published = {} if found is None else found.tera_a_second
    return {each.value: rate * TERA for each, rate in published.items()} | measured
