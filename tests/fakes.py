"""Stand-ins that implement our ports."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from builders import NOW, make_report
from kernelcup.app.queue.attempt import Attempt
from kernelcup.domain import Device
from kernelcup.errors import LaunchCancelled, UnfitDevice
from kernelcup.launchers.base import Event, Launcher, LaunchResult, MachineReading
from kernelcup.launchers.bundle import harness_hash
from kernelcup.launchers.gpu_health.probe import GpuReading, ProbeFailed
from kernelcup.launchers.threads import RunsInThreads
from kernelcup.screen.findings import Remark, Screening
from kernelcup_harness.protocol import JobSpec, RunReport

Outcome = RunReport | Exception


class FakeClock:
    """A clock that moves when told."""

    def __init__(self, start: datetime = NOW) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


class FakeSeconds:
    """A monotonic clock that moves while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cancelled = False

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        """Let time pass and say whether waiting on is no use, like ``Event.wait``."""
        self.now += seconds
        return self.cancelled


class FakeGpuProbe:
    """GPUs whose state tests set. It refuses states that no driver would tell."""

    def __init__(self, *gpus: str) -> None:
        self._readings = {gpu: GpuReading(gpu=gpu, uuid=f"GPU-{gpu}", memory_used_bytes=0) for gpu in gpus}
        self._later: list[tuple[int, str, dict[str, Any]]] = []
        self.reads = 0
        self.broken = ""
        """What the driver complains about instead of answering."""

    def set(self, gpu: str, **changes: Any) -> None:
        """Change what is read of a GPU."""
        before = self._readings[gpu]
        after = dataclasses.replace(before, **changes)
        _check_reading(before, after)
        self._readings[gpu] = after

    def set_after(self, reads: int, gpu: str, **changes: Any) -> None:
        """Change what is read of a GPU once there were so many more reads."""
        self._later.append((self.reads + reads, gpu, changes))

    def read(self, gpus: Sequence[str]) -> list[GpuReading]:
        """Return the state of each GPU."""
        for due, gpu, changes in self._later:
            if due == self.reads:
                self.set(gpu, **changes)
        self.reads += 1
        if self.broken:
            raise ProbeFailed(self.broken)
        if missing := [gpu for gpu in gpus if gpu not in self._readings]:
            raise ProbeFailed(f"no GPU {', '.join(missing)}")
        return [self._readings[gpu] for gpu in gpus]


def _check_reading(before: GpuReading, after: GpuReading) -> None:
    used = after.memory_used_bytes
    if used is not None and used < 0:
        raise ValueError("memory in use cannot be negative")
    held = sum(process.memory_bytes or 0 for process in after.processes)
    if used is not None and held > used:
        raise ValueError("processes hold more memory than is in use")
    if len({process.pid for process in after.processes}) != len(after.processes):
        raise ValueError("two processes have the same id")
    if any(after.errors.get(name, 0) < count for name, count in before.errors.items()):
        raise ValueError("a counter of errors only grows")


class FakeLauncher(RunsInThreads):
    """Answers with the outcomes in turn, and accepts everything once they are used up.

    A report is given the identity of the job it answers, so that tests need not know it.

    Args:
        outcomes: Reports to return, errors to raise.
        until_cancelled: Whether runs go on until they are cancelled.
        meanwhile: Called once, in the thread of the first run, after that has begun.
    """

    def __init__(
        self,
        *outcomes: Outcome,
        until_cancelled: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.outcomes = list(outcomes)
        self.specs: list[JobSpec] = []
        self.most_at_once = 0
        self._until_cancelled = until_cancelled
        self._meanwhile = [meanwhile]
        self._running = 0
        self._lock = threading.Lock()

    def capacity(self, device: Device) -> int:
        """Return the device's free slots."""
        with self._lock:
            return device.slots - self._running

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return one machine with every slot."""
        return [MachineReading(name="fake", slots={device.name: device.slots for device in devices})]

    def run(
        self,
        spec: JobSpec,
        device: Device,
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> LaunchResult:
        """Answer with the next outcome."""
        outcome = self._begin(spec)
        try:
            on_event({"event": "stage", "name": "import"})
            while self._meanwhile:
                self._meanwhile.pop()()
            if self._until_cancelled:
                assert cancelled.wait(60), "nobody cancelled it"
                raise LaunchCancelled("cancelled")
        finally:
            with self._lock:
                self._running -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return LaunchResult(report=outcome, machine="fake", harness_hash=harness_hash())

    def _begin(self, spec: JobSpec) -> Outcome:
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.specs.append(spec)
            outcome = self.outcomes.pop(0) if self.outcomes else make_report()
        return outcome if isinstance(outcome, Exception) else answer(spec, outcome)


class FakeGpuLauncher(FakeLauncher):
    """Judges on GPUs, one for each slot, that can be taken out of service.

    Args:
        gpus: The GPUs, one for each slot of whatever device.
    """

    def __init__(self, *outcomes: Outcome, gpus: Sequence[str] = ("0",)) -> None:
        super().__init__(*outcomes)
        self.gpus = tuple(gpus)
        self.sick: dict[str, str] = {}
        """What is wrong with a GPU when a job comes or somebody looks again."""
        self.left_out: frozenset[str] = frozenset()
        self.looks: list[str] = []
        self.forgotten: set[str] = set()

    def capacity(self, device: Device) -> int:
        """Return the slots that are free and in service."""
        return min(super().capacity(device), len(set(self.gpus) - self.left_out))

    def run(
        self,
        spec: JobSpec,
        device: Device,
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> LaunchResult:
        """Answer with the next outcome, unless the first GPU in service is sick."""
        for gpu in self.gpus:
            if gpu not in self.left_out and gpu in self.sick:
                self.left_out |= {gpu}
                raise UnfitDevice(self.sick[gpu], gpus=[gpu])
        return super().run(spec, device, on_event=on_event, cancelled=cancelled)

    def leave_out(self, gpus: frozenset[str]) -> None:
        """Remember what is out of service."""
        self.left_out = gpus

    def look_again(self, gpu: str) -> None:
        """Raise ``UnfitDevice`` for a sick GPU."""
        if gpu not in self.gpus:
            raise ValueError(f"no GPU {gpu}")
        self.looks.append(gpu)
        if gpu in self.sick:
            raise UnfitDevice(self.sick[gpu], gpus=[gpu])

    def forget(self, gpus: frozenset[str]) -> None:
        """Remember for which GPUs somebody vouched."""
        self.forgotten |= gpus


def work_off(attempt: Attempt, launcher: Launcher) -> None:
    """Bring an attempt to its end, as a dispatcher does."""
    attempt.begin()
    while not attempt.is_over:
        attempt.take(launcher.poll([attempt.call])[attempt.call])


def answer(spec: JobSpec, report: RunReport) -> RunReport:
    """Return the report as if it had been made for the job."""
    return dataclasses.replace(
        report, job_id=spec.job_id, mode=spec.mode, backend=spec.backend, harness=spec.harness
    )


WORDS = {"exec(": "dynamic_execution", "_getframe": "frame_walk", "Stream(": "streams"}
"""Words that :func:`find_words` knows, and their tags."""


def find_words(code: str) -> Screening:
    """Return a second opinion that knows three words."""
    findings = [
        Remark(
            tag=tag,
            line=number,
            column=line.index(word) + 1,
            source=line,
            explanation=f"Has {word}",
        )
        for word, tag in WORDS.items()
        for number, line in enumerate(code.splitlines(), 1)
        if word in line
    ]
    return Screening(rules_version="words 1", findings=tuple(findings))
