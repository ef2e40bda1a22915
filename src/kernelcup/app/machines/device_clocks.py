"""A device's name stands for one kind of device: times of a GPU and of a processor must never share a ranking."""

from __future__ import annotations

from collections.abc import Iterable

from kernelcup.app.results.queries import overview
from kernelcup.clocks import Clock, clock_of_device
from kernelcup.domain import Device
from kernelcup.engine import Database


def misnamed(db: Database, devices: Iterable[Device]) -> list[str]:
    """Return a message for each device that shares its name with another kind of device in some rankings."""
    other = {Clock.GPU: Clock.NO_GPU, Clock.NO_GPU: Clock.GPU}
    found = []
    with db.read() as session:
        for device in devices:
            clock = other[clock_of_device(device.backend)]
            if boards := overview.timed_by(session, clock, device=device.name):
                how = "on a GPU" if clock is Clock.GPU else "without a GPU"
                found.append(
                    f"device {device.name}: results measured {how} rank under this name on {', '.join(boards)}, "
                    "and cannot be compared with those of this device. Give this device another name"
                )
    return found
