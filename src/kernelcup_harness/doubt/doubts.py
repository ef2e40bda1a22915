"""All that is measured and doubted beside the calls of a job: the device's state, the references, the floor.

Nothing here accepts an answer or makes a time shorter: what is found is added to a time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.judge import Beside
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.device.nvidia import l2_cache
from kernelcup_harness.doubt import findings, floor, probes
from kernelcup_harness.doubt.device_state import DeviceWatch, canary, device_name
from kernelcup_harness.protocol import (
    Calibration,
    Finding,
    JobSpec,
    Reason,
    SampleName,
    StageName,
    Timing,
    Verdict,
    Work,
)
from kernelcup_harness.wire.job_messages import Calibrated
from kernelcup_harness.wire.messages import Message

SAMPLES = 5
FIRST_INPUT = 1 << 21
"""Input numbers from here on are reserved for references."""
HIDING_CYCLES = 600_000
"""About 0.35 ms: time to launch some ten kernels, even on a slow host."""
REFERENCE_SHARE = 0.03
"""Share of the time for a stage that the references of all cases may take, and as much the probes of the checker."""


class Doubts:
    """Doubts the times of one job.

    Args:
        spec: The job.
        checks: Makes inputs, and calls the reference.
        watch: Looks at the device.
        processes: How many processes of the job use the device.
        tell: Takes messages for the runner.
        phase: Counts the seconds of a context towards a phase.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        checks: Checks,
        watch: DeviceWatch,
        processes: int,
        tell: Callable[[Message], None],
        phase: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._spec = spec
        self._checks = checks
        self._watch = watch
        self._expected = processes
        self._tell = tell
        self._phase = phase
        self._canary_ns = 0.0
        self.baselines_ns: Mapping[tuple[StageName, int, bool], Sequence[float]] = {}
        """What speedups are relative to, by stage and case and whether it was replayed; measured before any code of the
        submission ran."""
        self._has_probed = spec.any_answer or spec.rival is not None
        self._seen: list[int | None] = []
        """How many processes used the device, each time that it was asked."""

    def take_canary(self) -> None:
        """Look at the device before any code of a submission runs. Raise ``RunEnds`` if it is not fit."""
        with self._phase("canary"):
            check = canary(self._spec)
        self._canary_ns = check.canary_ns
        self._tell(Calibrated(calibration=Calibration(canary_ns=check.canary_ns)))
        if not check.fits and self._watch.gpu:
            text = (
                f"the device was not as usual before the job: its canary took {check.canary_ns / 1e3:.1f} us"
            )
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text)

    def timer(self, *, clean: bool = False) -> Callable[[Callable[[], Any]], float]:
        """Return what times a call of the task's own code in this process, in nanoseconds.

        With ``clean`` the cache holds no lines afterwards that have to be written back, as in the timer.
        """
        return CudaClock(clean=clean).time_ns if self._watch.gpu else host_ns

    @property
    def gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self._watch.gpu

    def look(self) -> tuple[float | None, bool]:
        """Return the device's clock in MHz, and whether it is slowed down."""
        return self._watch.look()

    def begin(self) -> None:
        """Note the state of the device before ordinary calls are timed."""
        self._seen = [self._watch.gauge.processes()]

    def findings(self, case: PlannedCase, timing: Timing) -> list[Finding]:
        """Return what speaks against a ranked time."""
        assert timing.audit is not None
        work, device = work_of(self._spec, case), self._spec.device
        remark = self._checks.remarks.get(case.index)
        against = [
            floor.finding(work, device, timing.audit.score_ns)
            if work is not None and device is not None
            else None,
            findings.throttled(len(timing.samples_ns), len(timing.discarded_ns)),
            findings.if_wide(timing, timing.audit, self._spec.backend),
            Finding(code="excused_twin", text=remark) if remark else None,
        ]
        return [finding for finding in against if finding is not None]

    def beside(self, stage: Stage, timed: Sequence[tuple[PlannedCase, Timing]]) -> list[Beside]:
        """Time the references, and report the state of the device."""
        with self._phase(f"{stage.name.value}/reference"):
            found_ns = self._references_ns(stage, timed)
        busy, gauge = self._busy() + self._probed(stage, timed), self._watch.gauge
        found = Calibration(
            canary_ns=self._canary_ns,
            sm_clock_mhz=gauge.clock_mhz(),
            temperature_c=gauge.temperature_c(),
            device_name=device_name(gpu=self._watch.gpu),
        )
        self._tell(Calibrated(calibration=found))
        return [
            self._beside(case, busy, reference_ns, self._baseline_ns(stage, case, timing))
            for (case, timing), reference_ns in zip(timed, found_ns, strict=True)
        ]

    def _baseline_ns(self, stage: Stage, case: PlannedCase, timing: Timing) -> list[float]:
        """Return the times of the baseline by the clock that the submission's time is of, if it has one."""
        found, key = self.baselines_ns, (stage.name, case.index)
        is_replayed = timing.audit is not None and timing.audit.captured
        if is_replayed and (replayed_ns := found.get((*key, True))):
            return list(replayed_ns)
        return [each + _called_ns(timing) for each in found.get((*key, False), ())]

    def _beside(
        self,
        case: PlannedCase,
        findings: list[Finding],
        reference_ns: float | None,
        baseline_ns: Sequence[float],
    ) -> Beside:
        work, device = work_of(self._spec, case), self._spec.device
        floor_ns = floor.floor_ns(work, device) if work is not None and device is not None else None
        return Beside(
            findings=findings,
            work=work,
            floor_ns=floor_ns,
            reference_ns=reference_ns,
            baseline_ns=baseline_ns,
        )

    def _references_ns(self, stage: Stage, timed: Sequence[tuple[PlannedCase, Timing]]) -> list[float | None]:
        """Return the time of the reference for each case; with the overhead of a call if the case's time has it too."""
        time_ns = self.timer()
        budget_s = REFERENCE_SHARE * self._spec.rules.stage_budget_s / max(1, len(timed))
        references_ns: list[float | None] = []
        for case, timing in timed:
            place = self._checks.place(stage.name, case)
            reference_ns = median_ns(self._checks, place, budget_s, time_ns)
            references_ns.append(None if reference_ns is None else reference_ns + _called_ns(timing))
        return references_ns

    def _probed(self, stage: Stage, timed: Sequence[tuple[PlannedCase, Timing]]) -> list[Finding]:
        """Return what the checker accepts of wrong answers, once a job."""
        if self._has_probed or stage.name is not StageName.RANKED:
            return []
        self._has_probed, found = True, list[str]()
        limit_s = REFERENCE_SHARE * self._spec.rules.stage_budget_s
        places = [self._checks.place(stage.name, case) for case, _ in timed]
        # Whatever the task's code makes of such an answer is no fault of the submission, whose answers are right.
        with self._phase(f"{stage.name.value}/probes"), suppress(Exception):
            found = probes.accepted(self._checks, places, limit_s, dtypes=self._spec.dtypes is None)
        text = probes.ACCEPTED.format(", ".join(found))
        return [Finding(code="weak_checker", text=text, quarantines=True)] if found else []

    def _busy(self) -> list[Finding]:
        counts = [count for count in (*self._seen, self._watch.gauge.processes()) if count is not None]
        busy = findings.busy_device(max(counts, default=None), self._expected)
        return [busy] if busy is not None else []


def _called_ns(timing: Timing) -> float:
    """Return the overhead of a call if the time of a case has it in it, too."""
    is_called = timing.audit is None or not timing.audit.captured
    return (timing.overhead_ns or 0.0) if is_called else 0.0


def work_of(spec: JobSpec, case: PlannedCase) -> Work | None:
    """Return the work that the task declares for a case of the benchmarks."""
    declared = spec.hidden_work if case.hidden else spec.work
    place = case.index - (len(spec.benchmarks) if case.hidden else 0)
    return declared[place] if 0 <= place < len(declared) else None


class CudaClock:
    """CUDA events around the call, with a cold L2 cache.

    A kernel that only waits, and the sweep that clears the cache, hide the latency of launches: the
    device is still busy with them when all launches of the call are queued. Cache that the host sets
    aside meanwhile is released afterwards.
    """

    def __init__(self, *, clean: bool = False) -> None:
        self._synchronize = torch.cuda.synchronize
        self._wait = torch.cuda._sleep
        self._persisting = l2_cache.Persisting()
        if clean:
            self._sweep = l2_cache.OwnWork().sweep
        else:
            memory = torch.empty(l2_cache.sweep_bytes(), dtype=torch.uint8, device="cuda")
            self._sweep = partial(memory.fill_, 1)
        # The first record creates the event; later ones only take the time.
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_ns(self, call: Callable[[], Any]) -> float:
        """Return the nanoseconds from event to event; waits for the whole device before it returns."""
        self._synchronize()
        self._persisting.reset()
        self._wait(HIDING_CYCLES)
        self._sweep()
        self._start.record()
        call()
        self._end.record()
        self._persisting.reset()
        self._synchronize()
        # Less than a tick of the device's clock reads as zero.
        return max(1.0, float(self._start.elapsed_time(self._end)) * 1e6)


def host_ns(call: Callable[[], Any]) -> float:
    """Return the nanoseconds of ``call`` on the monotonic clock."""
    begin = time.perf_counter_ns()
    call()
    return float(time.perf_counter_ns() - begin)


def median_ns(
    checks: Checks, place: Place, budget_s: float, time_ns: Callable[[Callable[[], Any]], float]
) -> float | None:
    """Return the median of a few calls in nanoseconds, None for a task without a reference.

    No further call is begun after ``budget_s`` seconds. Raise ``TaskFault``.
    """
    # It has been called for this place before, so nothing is compiled while the clock runs.
    if checks.form(place) is None:
        return None
    until = time.monotonic() + budget_s
    times_ns: list[float] = []
    while not times_ns or (len(times_ns) < SAMPLES and time.monotonic() < until):
        data = checks.make_input(place, SampleName(input=FIRST_INPUT + len(times_ns)))
        times_ns.append(time_ns(partial(checks.expected, data)))
    return statistics.median(times_ns)
