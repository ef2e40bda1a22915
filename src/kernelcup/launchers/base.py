"""The port that every launcher implements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kernelcup.domain import Device
from kernelcup.errors import BadReport, UnfitDevice
from kernelcup_harness.protocol import PROTOCOL_VERSION, DeviceFacts, JobSpec, Mode, RunReport, SandboxPolicy

Event = dict[str, Any]
"""An event that the harness reports while it works, unchanged, or one of the next two of a launcher."""
COMPILING, COMPILED = "compiling", "compiled"
"""A call begins and ends to compile on the processor; afterwards it waits for a device. Meanwhile it needs none."""


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
    uploads: str = ""
    """The name under which its machine has uploaded files of the report; empty if it has not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A job for a launcher."""

    spec: JobSpec
    device: Device
    harness_hash: str
    """The harness to judge with (see :mod:`kernelcup.launchers.bundle`)."""
    machines: frozenset[str] | None = None
    """The machines that may judge it; None for all."""
    provider_isolation: bool = False
    """Whether a provider's isolation of the job may stand in for our sandbox."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Polled:
    """The news of one call since the last poll."""

    events: Sequence[Event] = ()
    """Events of the harness, each reported once and in order; a restart of the dispatcher may lose some."""
    outcome: LaunchResult | Exception | None = None
    """None while the call waits or runs; for the errors see :class:`Launcher`."""
    machine: str = ""
    """The machine that works on it, once that is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineReading:
    """A machine that a launcher can reach now."""

    name: str
    slots: Mapping[str, int]
    """The number of slots by device."""
    free: Mapping[str, int] | None = None
    """The number of free slots by device; None if the launcher does not know on which machine they are."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Its hardware and software."""
    trouble: str = ""
    """Why it takes no jobs; empty if it does."""


class Launcher(Protocol):
    """Carries jobs to machines and brings their reports back.

    One loop calls all methods, so none of them may wait for a job; a method that asks an engine answers within a
    second or raises ``LaunchError``. The outcome of a call is one of these:

    - ``LaunchResult``: it was judged.
    - ``LaunchLost``: its machine was lost, or the call is unknown here.
    - ``LaunchTimeout``: it made no report within its limit (:func:`limit_s`).
    - ``BadReport``: its report is too large, unreadable, for another job, or made by another version.
    - ``UnfitDevice``: the GPUs were not fit for the job; with ``spoils``, this was found afterwards and the report
      was discarded.
    - ``LaunchError``: the machine failed in another way.

    A second report of a call, and a report after its outcome, change nothing.
    """

    @property
    def durable(self) -> bool:
        """Whether calls outlive this process, so that :meth:`poll` knows them after a restart."""
        ...

    def capacity(self, device: Device) -> int:
        """Return how many more calls could begin to run on the device now."""
        ...

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:
        """Begin a job and return the call's id, at most 500 characters.

        Args:
            wake: May be called from any thread when a poll would have news; without it there is a poll every
                half second.

        Raises:
            NoRoom: None of the machines that may judge it has a free slot now.
            LaunchError, OSError: Nothing was started.
        """
        ...

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls; a call without news may be left out.

        An outcome is reported by every poll until the call is cancelled.

        Raises:
            LaunchError, OSError: The engine cannot be asked now. The calls go on.
        """
        ...

    def cancel(self, call: str) -> None:
        """End a call if it still runs, and forget it: its outcome is stored, or not wanted any more.

        Returns before the end. Until nothing of the call is left, :meth:`capacity` counts its slot as taken. An
        unknown call is ignored. Raise ``LaunchError`` or ``OSError`` if the engine cannot be told.
        """
        ...

    def probe(self, devices: Sequence[Device]) -> Sequence[MachineReading]:
        """Return the machines that serve these devices now."""
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
    def database_url(self) -> str:
        """The database of the service."""
        ...

    @property
    def files_url(self) -> str | None:
        """The bucket for files beside the database; None for a folder."""
        ...

    @property
    def service_url(self) -> str:
        """The address by which machines reach the service."""
        ...

    @property
    def configured_devices(self) -> Sequence[Device]:
        """The devices of the configuration file."""
        ...

    @property
    def launcher_options(self) -> Mapping[str, Mapping[str, Any]]:
        """The tables ``[launchers.NAME]`` of the configuration file; each launcher checks its own."""
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


START_S = 480.0
"""Time beyond the limits of the stages. The harness itself allows 120 s for a start, another 120 s for the first
import of PyTorch, and 30 s more than its limit for each of up to seven steps."""


def stages_s(spec: JobSpec) -> float:
    """Return the sum of the limits of a job's steps; a build and an import have the same limit."""
    limits = spec.limits
    # A profile takes three runs at most, and waits as long for ncu's report.
    profile_s = 5 * limits.profile_s if spec.mode is Mode.PROFILE else 0.0
    # Public cases, then hidden ones in a process of their own.
    parts = 2 if spec.hidden_tests or spec.hidden_benchmarks else 1
    calls_s = limits.import_s + limits.test_s + limits.benchmark_s + limits.ranked_s
    return limits.import_s + parts * calls_s + profile_s


def limit_s(spec: JobSpec) -> float:
    """Return how long a machine may take for a job, in seconds, without the start of a container.

    No launcher sets a shorter limit for its engine.
    """
    # A kept binary that cannot be replayed ends an attempt, and the code is judged in another.
    attempts = 1 + sum(each is not None and not each.why for each in (spec.binary, spec.rival_binary))
    return attempts * (stages_s(spec) + START_S)


def with_sandbox_rule(spec: JobSpec, *, required: bool) -> JobSpec:
    """Return the job with the rule of a machine's operator: if a sandbox is required, ranked runs need it."""
    if not required or spec.mode is not Mode.LEADERBOARD or spec.sandbox is SandboxPolicy.NONE:
        return spec
    return dataclasses.replace(spec, sandbox=SandboxPolicy.REQUIRED)


def check_result(order: Order, result: LaunchResult) -> None:
    """Raise ``BadReport`` unless a result answers the order and was made by its harness."""
    check_report(order.spec, result.report)
    if result.harness_hash != order.harness_hash:
        raise BadReport(f"judged by the harness {result.harness_hash[:12]}, not {order.harness_hash[:12]}")


def check_report(spec: JobSpec, report: RunReport) -> None:
    """Raise ``BadReport`` unless the report answers the specification."""
    said = (report.version, report.job_id, report.mode, report.backend, report.harness)
    asked = (PROTOCOL_VERSION, spec.job_id, spec.mode, spec.backend, spec.harness)
    for name, actual, expected in zip(
        ("version", "job_id", "mode", "backend", "harness"), said, asked, strict=True
    ):
        if actual != expected:
            raise BadReport(f"the report's {name} is {actual!r}, not {expected!r}")
