"""Devices: named kinds of accelerators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelcup_harness.protocol import Backend

HERE = "local"
"""The launcher that judges on its own machine."""
OWN_JOB = "local"
"""The id of a job that no server knows: `kernelcup run` judges it here."""
MOST_GPUS = 16
"""The most GPUs of one host that a job can take."""


def split_count(name: str) -> tuple[str, int]:
    """Return the model and the number of GPUs of a device: ``("H200", 2)`` for ``H200x2``, 1 without a number."""
    model, _, count = name.rpartition("x")
    if model and count.isascii() and count.isdigit() and count[0] != "0" and 2 <= int(count) <= MOST_GPUS:
        return model, int(count)
    return name, 1


def slots_for(slots: Mapping[str, int], device: str) -> int:
    """Return how many jobs of a device fit on a machine with these slots; one on ``H200x2`` takes two of ``H200``."""
    model, gpus = split_count(device)
    return slots.get(device) or slots.get(model, 0) // gpus


def grouped(gpus: Sequence[str], count: int) -> list[str]:
    """Return groups of that many GPUs, joined by commas; GPUs that are left over are in none."""
    return [",".join(gpus[start : start + count]) for start in range(0, len(gpus) - count + 1, count)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A named kind of accelerator for judging submissions; devices are configured, not enumerated."""

    name: str
    backend: Backend
    launcher: str = HERE
    slots: int = 1
    """Jobs that may run at once."""
    description: str = ""
    environments: frozenset[str] | None = field(default=None, compare=False)
    """The environments of its machine; None if that is not known."""

    @property
    def model(self) -> str:
        """The device whose slots it takes: its own, or ``H200`` for ``H200x2``."""
        return split_count(self.name)[0]

    @property
    def gpus(self) -> int:
        """How many slots of its model, on one host, a job takes at once."""
        return split_count(self.name)[1]

    @property
    def is_here(self) -> bool:
        """Whether this machine judges on it."""
        return self.launcher == HERE
