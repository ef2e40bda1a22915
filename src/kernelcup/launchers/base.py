"""The port that every launcher implements."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from kernelcup.domain import Device
from kernelcup.errors import BadReport, UnfitDevice
from kernelcup_harness.protocol import PROTOCOL_VERSION, DeviceFacts, JobSpec, RunReport

Event = dict[str, Any]
"""An event that the harness reports while it works, unchanged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchResult:
    """A report, with the machine and the harness that made it."""

    report: RunReport
    machine: str
    harness_hash: str
    unfit: UnfitDevice | None = None
    """A fault of the GPUs after the run that does not affect the report."""
    facts: DeviceFacts | None = None
    """The device's figures from the calibration in force; None if there is none."""


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
            UnfitDevice: The GPUs were not fit for the job; with ``spoils``, this was found afterwards and the
                report was discarded.
            LaunchError: The machine failed. ``LaunchTimeout`` and ``BadReport`` say how.
        """
        ...


@runtime_checkable
class KeepsGpus(Protocol):
    """A launcher that judges on GPUs of this machine, and can take them out of service."""

    def leave_out(self, gpus: frozenset[str]) -> None:
        """Start nothing on these GPUs until the next call; all others may be used again."""
        ...

    def look_again(self, gpu: str) -> None:
        """Check a GPU once. Raise ``UnfitDevice`` if it is not fit."""
        ...

    def forget(self, gpus: frozenset[str]) -> None:
        """Accept the current state of the GPUs as their baseline, because an operator vouches for them."""
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
