"""The port that every launcher implements."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kernelcup.domain import Device
from kernelcup.errors import BadReport
from kernelcup_harness.protocol import PROTOCOL_VERSION, JobSpec, RunReport

Event = dict[str, Any]
"""What the harness says while it works, as it says it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchResult:
    """A report, where it was made, and by which harness."""

    report: RunReport
    machine: str
    harness_hash: str


class Launcher(Protocol):
    """Carries a job to a machine and brings its report back."""

    def capacity(self, device: Device) -> int:
        """Return how many more runs could start on the device now."""
        ...

    def run(
        self,
        spec: JobSpec,
        device: Device,
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> LaunchResult:
        """Judge once, and return when the machine is free again. Called from several threads.

        Raises:
            LaunchCancelled: ``cancelled`` was set; nothing of the run is left.
            LaunchError: The machine failed. ``LaunchTimeout`` and ``BadReport`` say how.
        """
        ...


def check_report(spec: JobSpec, report: RunReport) -> None:
    """Raise ``BadReport`` unless the report answers the specification."""
    said = (report.version, report.job_id, report.mode, report.backend, report.harness)
    asked = (PROTOCOL_VERSION, spec.job_id, spec.mode, spec.backend, spec.harness)
    for name, actual, expected in zip(
        ("version", "job_id", "mode", "backend", "harness"), said, asked, strict=True
    ):
        if actual != expected:
            raise BadReport(f"the report's {name} is {actual!r}, not {expected!r}")
