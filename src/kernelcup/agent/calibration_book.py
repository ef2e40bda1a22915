"""The calibrations of an agent's machine, which the service keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from kernelcup.agent.connection import Connection
from kernelcup.agent.harnesses import Harnesses
from kernelcup.app.machines.calibrations import Known
from kernelcup.errors import UnfitDevice
from kernelcup.launchers.local.calibrate import Place
from kernelcup_harness.protocol.calibration import DeviceCalibration

PUBLISH_EVERY = timedelta(minutes=5)
"""How often an agent asks for the figures of its jobs, which follow the canaries of the jobs before."""


class ServiceBook:
    """A :class:`kernelcup.app.machines.calibrations.Book` at the service."""

    def __init__(self, connection: Connection, harnesses: Harnesses) -> None:
        self._connection = connection
        self._harnesses = harnesses

    def look(self, places: Collection[Place]) -> Mapping[Place, Known]:
        """Return what is known of devices."""
        return self._connection.calibrations(places)[0] if places else {}

    def keep(self, found: DeviceCalibration, place: Place) -> UnfitDevice | None:
        """Send a calibration; if its GPU is not fit, note it, so that the machine takes no jobs until it is."""
        _, text = self._connection.calibrations([], (place, found))
        if not text:
            return None
        unfit = UnfitDevice(text, gpus=[place[1]])
        self._harnesses.note(unfit)
        return unfit
