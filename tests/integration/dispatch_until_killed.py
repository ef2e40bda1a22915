"""Run by a test: claim the jobs of a database, and hold them until somebody kills us.

Usage: dispatch_until_killed.py DATABASE_URL
"""

from __future__ import annotations

import sys

from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.domain import Device
from kernelcup.engine.database import Database
from kernelcup.launchers.threads import RunsInThreads
from kernelcup_harness.protocol import Backend


class HangingLauncher(RunsInThreads):
    """Says that it has begun, then waits for input that never comes."""

    def capacity(self, device: Device) -> int:
        return device.slots

    def run(self, spec, device, *, on_event, cancelled):
        sys.stdout.write(f"{spec.job_id}\n")
        sys.stdout.flush()
        sys.stdin.read()
        raise AssertionError("nobody should write to us")


if __name__ == "__main__":
    Dispatcher(
        Database.open(sys.argv[1]),
        devices=[Device(name="H100", backend=Backend.CUDA, launcher="hanging")],
        launchers={"hanging": HangingLauncher()},
    ).run_until_idle()
