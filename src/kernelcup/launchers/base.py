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
"""What the harness says while it works, as it says it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchResult:
    """A report, where it was made, and by which harness."""

    report: RunReport
    machine: str
    harness_hash: str
    unfit: UnfitDevice | None = None
    """What was wrong with the GPUs afterwards, where that does not touch the report."""
    facts: DeviceFacts | None = None
    """What the device could do, by the calibration in force; None where there is none."""


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
            UnfitDevice: The GPUs were not fit for the job; where it says ``spoils``, they were
                found so afterwards and the report was thrown away.
            LaunchError: The machine failed. ``LaunchTimeout`` and ``BadReport`` say how.
        """
        ...


@runtime_checkable
class KeepsGpus(Protocol):
    """A launcher that judges on GPUs of this machine, and can take them out of service."""

    def leave_out(self, gpus: frozenset[str]) -> None:
        """Start nothing on these GPUs, and on others again, until told otherwise."""
        ...

    def look_again(self, gpu: str) -> None:
        """Look at a GPU once. Raise ``UnfitDevice`` if it is not fit."""
        ...

    def forget(self, gpus: frozenset[str]) -> None:
        """Take the GPUs as they are from now on: somebody vouches for them."""
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
