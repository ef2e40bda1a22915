"""Usage: fast_dispatcher.py DATABASE_URL DEVICE

A dispatcher whose machine judges in a moment and reports made-up times, for benchmarks of the queue.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from builders import make_report
from fakes import answer
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.domain import Device
from kernelcup.engine.database import Database
from kernelcup.errors import LaunchCancelled
from kernelcup.launchers.base import Event, LaunchResult
from kernelcup.launchers.bundle import harness_hash
from kernelcup.launchers.threads import RunsInThreads
from kernelcup_harness.protocol import Backend, JobSpec


class QuickLauncher(RunsInThreads):
    """Takes a few milliseconds for each job."""

    def __init__(self) -> None:
        super().__init__()
        self._chance = random.Random()

    def capacity(self, device: Device) -> int:
        """Return the device's slots: they are never full."""
        return device.slots

    def run(
        self,
        spec: JobSpec,
        device: Device,  # noqa: ARG002
        *,
        on_event: Callable[[Event], None],  # noqa: ARG002
        cancelled: threading.Event,
    ) -> LaunchResult:
        """Wait a little and accept."""
        if cancelled.wait(self._chance.uniform(0.0, 0.1)):
            raise LaunchCancelled("cancelled")
        report = answer(spec, make_report([self._chance.uniform(1000.0, 2000.0)]))
        return LaunchResult(report=report, machine="quick", harness_hash=harness_hash())


def main() -> None:
    """Dispatch until told to stop."""
    url, name = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    device = Device(name=name, backend=Backend.CPU, launcher="quick", slots=4)
    with Database.open(url) as db:
        Dispatcher(db, devices=[device], launchers={"quick": QuickLauncher()}, tick_s=0.05).run_forever(stop)


if __name__ == "__main__":
    main()
