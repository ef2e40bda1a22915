"""Stand-ins that implement our ports."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from builders import NOW, make_report
from kernelcup.domain import Device
from kernelcup.errors import LaunchCancelled
from kernelcup.launchers.base import Event, LaunchResult
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


class FakeLauncher:
    """Answers with the outcomes in turn, and accepts everything once they are used up.

    A report is given the identity of the job it answers, so that tests need not know it.

    Args:
        outcomes: Reports to return, errors to raise.
        gate: While it is closed, runs wait for it or for their cancellation.
    """

    def __init__(self, *outcomes: Outcome, gate: threading.Event | None = None) -> None:
        self.outcomes = list(outcomes)
        self.specs: list[JobSpec] = []
        self.started = threading.Semaphore(0)
        """Released once for each run that began."""
        self.most_at_once = 0
        self._gate = gate
        self._running = 0
        self._lock = threading.Lock()

    def capacity(self, device: Device) -> int:
        """Return the device's free slots."""
        with self._lock:
            return device.slots - self._running

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
            self._wait(cancelled)
        finally:
            with self._lock:
                self._running -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return LaunchResult(report=outcome, machine="fake", harness_hash="f" * 64)

    def _begin(self, spec: JobSpec) -> Outcome:
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.specs.append(spec)
            outcome = self.outcomes.pop(0) if self.outcomes else make_report()
        self.started.release()
        return outcome if isinstance(outcome, Exception) else answer(spec, outcome)

    def _wait(self, cancelled: threading.Event) -> None:
        while self._gate is not None and not self._gate.wait(0.005):
            if cancelled.is_set():
                raise LaunchCancelled("cancelled")


def answer(spec: JobSpec, report: RunReport) -> RunReport:
    """Return the report as if it had been made for the job."""
    return dataclasses.replace(
        report, job_id=spec.job_id, mode=spec.mode, backend=spec.backend, harness=spec.harness
    )
