"""The port that every launcher implements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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


class LauncherSettings(Protocol):
    """What a launcher is made of: the configuration, as far as launchers need it."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of this process."""
        ...

    @property
    def data_dir(self) -> Path:
        """The folder for data that is kept."""
        ...

    @property
    def runtime_dir(self) -> Path:
        """The folder through which the processes of a user on this machine coordinate the use of GPUs."""
        ...

    @property
    def slot_gpus(self) -> Mapping[str, Sequence[str]]:
        """The GPU of each slot of this machine's devices."""
        ...

    @property
    def sandbox_required(self) -> bool:
        """Whether ranked runs are refused without a sandbox."""
        ...

    @property
    def sandbox_environment(self) -> Sequence[str]:
        """Additional environment variables for jobs: names, or prefixes with a ``*`` at the end."""
        ...

    @property
    def warm(self) -> int | None:
        """The number of warm runners for each slot; None lets the launcher decide."""
        ...

    @property
    def refill_beside(self) -> bool | None:
        """Whether new runners start while a job runs on the same GPU; None lets the machine decide."""
        ...


@runtime_checkable
class KeepsReady(Protocol):
    """A launcher that can keep processes ready for jobs."""

    def keep_ready(self, devices: Iterable[Device]) -> None:
        """Keep processes ready for jobs on these devices, until :meth:`close`."""
        ...

    def close(self) -> None:
        """End them."""
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
