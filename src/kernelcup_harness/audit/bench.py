"""All measurements of a job beside its calls: the device's state, references, the floor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kernelcup_harness.audit import findings, physics, references
from kernelcup_harness.device import calibration, devices, nvml
from kernelcup_harness.judge import clock as timing
from kernelcup_harness.judge import wall_clock
from kernelcup_harness.judge.caller import Caller, Calls
from kernelcup_harness.judge.checks import Checks
from kernelcup_harness.judge.schedule import CaseRun, PlannedCase, Stage
from kernelcup_harness.judge.verdicts import MachineFailed, RunEnds
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    Calibration,
    Finding,
    JobSpec,
    Mode,
    Reason,
    StageName,
    Verdict,
    Work,
)
from kernelcup_harness.wire.messages import (
    Calibrated,
    Found,
    Message,
)

REFERENCE_SHARE = 0.03
"""Share of the time for a stage that the references of all cases may take."""
LOOK_EVERY_S = 0.025
"""The driver answers slowly, and its figures do not change from one call to the next."""
TIMED = (Mode.BENCHMARK, Mode.LEADERBOARD)


@dataclass(slots=True)
class Watch:
    """The state of the device, and where the time goes."""

    gpu: bool
    gauge: nvml.Gauge
    phases: dict[str, float] = field(default_factory=dict)
    seen: tuple[float | None, bool] = (None, False)
    looked: float = -math.inf

    def look(self) -> tuple[float | None, bool]:
        """Return the clock in MHz, and whether the device is slowed down: now, or a few calls ago."""
        if time.monotonic() - self.looked >= LOOK_EVERY_S:
            self.seen = self.gauge.clock_mhz(), self.gauge.is_slowed_down()
            self.looked = time.monotonic()
        return self.seen

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of this context towards a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - began


class Bench:
    """Measures for one job.

    Args:
        spec: The job.
        checks: Makes inputs and checks answers.
        callers: To each contestant by role.
        tell: Takes messages for the runner.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        checks: Checks,
        callers: Mapping[str, Caller],
        tell: Callable[[Message], None],
    ) -> None:
        self._spec = spec
        self._checks = checks
        self._callers = callers
        self._tell = tell
        gpu = devices.on_gpu()
        self.watch = Watch(gpu, nvml.gauge(gpu=gpu and spec.mode in TIMED))
        self._overheads: wall_clock.Overheads | None = None
        self._canary_ns = 0.0
        self._processes: int | None = None

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase."""
        return self.watch.phases

    def before_load(self) -> None:
        """Look at the device, which is ours alone. Raise ``RunEnds`` if it is not fit."""
        if self._spec.replay is not None or self._spec.mode is not Mode.LEADERBOARD:
            return
        if self._spec.backend is not Backend.EMULATED:
            with self.watch.phase("canary"):
                self._take_canary()

    def measure_overheads(
        self, stages: Sequence[Stage], calls_of: Callable[[Stage, PlannedCase], Calls]
    ) -> None:
        """Measure what a call costs that computes nothing. Raise ``RunEnds`` if a process of the harness fails."""
        if self._spec.replay is not None or self._spec.mode not in TIMED:
            return
        self._overheads = wall_clock.Overheads(self._checks, self._callers, calls_of)
        with self.watch.phase("overheads"), failing_machine():
            self._overheads.measure(stages)

    def _take_canary(self) -> None:
        try:
            check = calibration.check_canary(self._spec.backend, self._spec.device)
        except RuntimeError as error:
            text = f"the device could not be examined before the job: {error}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text[:2000]) from error
        self._canary_ns = check.canary_ns
        self._tell(Calibrated(calibration=Calibration(canary_ns=check.canary_ns)))
        if not check.fits and self.watch.gpu:
            text = (
                f"the device was not as usual before the job: its canary took {check.canary_ns / 1e3:.1f} us"
            )
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text)

    def finishes(self, stage: Stage) -> bool:
        """Return whether a stage needs more work after all its calls: true for ranked times."""
        return stage.name is StageName.RANKED and self._spec.replay is None

    def begin(self, stage: Stage) -> None:
        """Note the state of the device at the beginning of a timed stage."""
        if stage.timed:
            self._processes = self.watch.gauge.processes()

    def overhead_ns(self, stage: Stage, case: PlannedCase, calls: Calls) -> float | None:
        """Return the overhead in each sample of a case that is called this way, None if it is not known."""
        return self._overheads.of(stage, case, calls) if self._overheads is not None else None

    def note_called(self, run: CaseRun, more: Sequence[Finding | None]) -> None:
        """Note the time of a case whose calls were timed by the wall clock."""
        self.note(run, wall_clock.audit_of(run), more)

    def note(self, run: CaseRun, audit: Audit, more: Sequence[Finding | None] = ()) -> None:
        """Note the time of a case, with what was found beside it."""
        timed = run.timing()
        assert timed is not None
        slow = findings.throttled(len(timed.samples_ns), len(timed.discarded_ns))
        wide = findings.if_wide(replace(timed, audit=audit), audit, self._spec.backend)
        run.audit = findings.with_findings(audit, [self._floor(run, audit.score_ns), slow, wide, *more])
        for finding in run.audit.findings:
            if finding.quarantines:
                # At once: the run may end before its cases are reported.
                self._tell(Found(finding=finding))

    def finish(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        """Time the references and report the state of the device."""
        with self.watch.phase(f"{stage.name.value}/reference"):
            self._time_references(stage, runs)
        self._add_busy(runs)
        gauge = self.watch.gauge
        found = Calibration(
            canary_ns=self._canary_ns,
            sm_clock_mhz=gauge.clock_mhz(),
            temperature_c=gauge.temperature_c(),
            device_name=device_name(gpu=self.watch.gpu),
        )
        self._tell(Calibrated(calibration=found))

    def _time_references(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        clock: timing.Clock = timing.CudaClock() if self.watch.gpu else timing.HostClock()
        stopwatch = references.Stopwatch(self._checks, clock)
        budget_s = REFERENCE_SHARE * self._spec.rules.stage_budget_s / max(1, len(runs))
        for run in runs:
            found_ns = stopwatch.median_ns(self._checks.place(stage.name, run.case), budget_s)
            is_called = run.audit is None or not run.audit.captured
            # By the wall clock, the overhead of a call is part of all compared times.
            overhead_ns = (run.overhead_ns or 0.0) if is_called else 0.0
            run.reference_ns = None if found_ns is None else found_ns + overhead_ns

    def _floor(self, run: CaseRun, score_ns: float) -> Finding | None:
        run.work = work_of(self._spec, run)
        if run.work is None or self._spec.device is None:
            return None
        run.floor_ns = physics.floor_ns(run.work, self._spec.device)
        return physics.finding(run.work, self._spec.device, score_ns)

    def _add_busy(self, runs: Sequence[CaseRun]) -> None:
        counts = [self._processes, self.watch.gauge.processes()]
        most = max((count for count in counts if count is not None), default=None)
        # The judge, the timer and the contestants.
        busy = findings.busy_device(most, 2 + len(self._callers))
        for run in runs:
            if run.audit is not None:
                run.audit = findings.with_findings(run.audit, [busy])


@contextmanager
def failing_machine() -> Iterator[None]:
    """End the run if a process of the harness fails."""
    try:
        yield
    except MachineFailed as error:
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, str(error)) from error


def work_of(spec: JobSpec, run: CaseRun) -> Work | None:
    """Return the work that the task declares for a case of the benchmarks."""
    declared = spec.hidden_work if run.case.hidden else spec.work
    place = run.case.index - (len(spec.benchmarks) if run.case.hidden else 0)
    return declared[place] if 0 <= place < len(declared) else None


def device_name(*, gpu: bool) -> str:
    """Return the name of the device, empty for the processor."""
    if not gpu:
        return ""
    import torch

    return str(torch.cuda.get_device_name(0))
