"""Decides about one submission: calls it with one input after the other, checks each answer, and finds the verdict.

Every byte from the contestant is hostile. Each result goes to the runner at once, so that none is lost when the run is
cut off.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kernelcup_harness.core.answer import CallFailed, Form
from kernelcup_harness.core.call import PLACES, Caller
from kernelcup_harness.core.check import Checks, Fault, Wrong
from kernelcup_harness.core.plan import CaseCalls, PlannedCase, Stage, ends_stage
from kernelcup_harness.core.runner_line import MAX_MESSAGE, RunnerLine
from kernelcup_harness.core.verdict import (
    FAILURES,
    Reservation,
    RunEnds,
    line_in,
    of_channel,
    of_others,
)
from kernelcup_harness.protocol.base import Parameters
from kernelcup_harness.protocol.enums import Reason, StageName, Verdict
from kernelcup_harness.protocol.results import CaseResult, Finding, Timing
from kernelcup_harness.protocol.spec import JobSpec, SampleName, Work
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import CaseEnds, CasePrepared, Found, Prepare

LONGEST_S, TIMES_REFERENCE = 10.0, 100.0
"""A call ends at the larger of this and this multiple of the time of the reference."""
FIRST_S, FIRST_SHARE = 60.0, 1 / 3
"""In the place of the first for a call that may compile or tune itself, which nothing tells from one that hangs: the
larger of this and a share of its stage's limit."""


class Clock(Protocol):
    """Times the cases of a stage: makes their calls, and has each answer checked."""

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the submission's processes, those of ordinary calls left out."""

    def results(self, stage: Stage, judge: Judge) -> Iterator[CaseResult]:
        """Yield the result of each case as it finishes. All work is done in :meth:`Judge.attempt`."""


class Deadline:
    """When the current stage ends."""

    def __init__(self) -> None:
        self._until = self._limit_s = 0.0
        self.longest_s = math.inf
        """What the current request may take if the stage lasts so long."""

    def begin(self, limit_s: float) -> None:
        """Begin a stage."""
        self._limit_s, self._until = limit_s, time.monotonic() + limit_s

    def remaining(self, form: Form | None = None, *, calls: int = 1, may_compile: bool = False) -> float:
        """Return the seconds left of the stage, at most those that calls may take whose answers have a form."""
        self.longest_s = math.inf
        if form is not None:
            least = max(FIRST_S, FIRST_SHARE * self._limit_s) if may_compile else LONGEST_S
            self.longest_s = max(least, TIMES_REFERENCE * calls * form.reference_s)
        return min(self.longest_s, max(0.0, self._until - time.monotonic()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """What is found beside the time of a case. It changes neither the time nor the verdict."""

    findings: Sequence[Finding] = ()
    work: Work | None = None
    floor_ns: float | None = None
    reference_ns: float | None = None
    baseline_ns: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """All that a judge needs, once the submission is loaded."""

    spec: JobSpec
    stages: Sequence[Stage]
    """All of public cases, or all of hidden ones."""
    runner: RunnerLine
    checks: Checks
    callers: Mapping[str, Caller]
    """To the contestants with the submission, by role."""
    clocks: Mapping[StageName, Clock]
    """For the stages that are timed, or profiled in the timer."""
    deadline: Deadline
    reservation: Reservation | None
    """The judge's part of the device's memory, None without a GPU."""


class Judge:
    """The public or the hidden cases of a job, from the first stage to the last verdict."""

    def __init__(self, prepared: Prepared) -> None:
        self._job = prepared
        self._prepare_s: dict[str, float | None] = {}
        """What the submission's `prepare` took, None if it has none, by the parameters that it got."""

    def judge(self) -> bool:
        """Run the stages and report each; return whether all were accepted, the first that is not is the last."""
        return all(map(self._is_accepted, self._job.stages))

    def _is_accepted(self, stage: Stage) -> bool:
        """Run the cases of a stage and return whether all were accepted."""
        self._job.runner.begin(stage.name, stage.limit_s, len(stage.cases), stage.total)
        self._job.deadline.begin(stage.limit_s)
        for caller in self._job.callers.values():
            caller.waited_s = 0.0
        worst: CaseResult | None = None
        found: dict[int, bool] = {}
        try:
            for result in self._results(stage):
                if result.index in found:  # it failed when calls were captured, which then were made instead
                    continue
                found[result.index] = result.verdict is Verdict.ACCEPTED
                self._job.runner.tell(CaseEnds(stage=stage.name, case=result))
                if result.verdict is not Verdict.ACCEPTED and worst is None:
                    worst = result
                if ends_stage(stage, result.verdict):
                    break
        except RunEnds as end:
            self._job.runner.end_with(stage.name, end, met_hidden=stage.is_hidden)
            return False
        if stage.partial and any(found.values()) and len(found) == len(stage.cases):
            worst = None
        self._job.runner.end_of(stage, worst)
        return worst is None

    def _results(self, stage: Stage) -> Iterator[CaseResult]:
        if stage.name in self._job.clocks:
            failed = next(filter(None, (self._prepared(stage, case) for case in stage.cases)), None)
            if failed is not None:
                yield failed
                return
            yield from self._job.clocks[stage.name].results(stage, self)
            return
        with self._job.runner.phase(stage.name.value):
            for case in stage.cases:
                yield self._prepared(stage, case) or self._called(stage, CaseCalls(case))

    def _prepared(self, stage: Stage, case: PlannedCase) -> CaseResult | None:
        """Have the submission prepare for a case, once for equal parameters. Return the case's result if it fails."""
        limit_s, caller = self._job.spec.prepare_s, self._job.callers.get(case.role)
        given = parameters_of(case)
        if limit_s is None or caller is None or repr(given) in self._prepare_s:
            return None

        def work() -> None:
            began, timeout_s = time.monotonic(), min(limit_s, self._job.deadline.remaining())
            try:
                reply = caller.line.ask(Prepare(parameters=given), CasePrepared, timeout_s=timeout_s)
            except ChannelTimeout:
                if timeout_s < limit_s:
                    raise
                text = f"`prepare` did not end within {limit_s:g} s, in case {case.index}"
                raise RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text, role=case.role) from None
            self._prepare_s[repr(given)] = time.monotonic() - began if reply.called else None

        return self.attempt(stage, CaseCalls(case), work)

    def _called(self, stage: Stage, calls: CaseCalls) -> CaseResult:
        """Call a case that is not timed, each time with a new input, and return its result."""
        samples = [SampleName(input=number) for number in range(self._job.spec.rules.checks)]
        if stage.name is StageName.PROFILE:
            samples = samples[:1]
        elif self._job.spec.rules.test_twins:
            twins = self._job.checks.twins(self._job.checks.place(stage.name, calls.case))
            samples += [SampleName(input=0, twin=True, part=part) for part in range(len(twins))]
        for sample in [stage.replayed] if stage.replayed is not None else samples:
            failed = self.attempt(stage, calls, partial(self._call, stage, calls, sample))
            if failed is not None:
                return failed
            self.progress(stage, calls)
        return replace(self.accepted(calls), message=self._job.checks.remarks.get(calls.case.index, ""))

    def _call(self, stage: Stage, calls: CaseCalls, sample: SampleName) -> None:
        """Call the contestant once and check its answer. Raise ``Wrong``."""
        checks, profiled = self._job.checks, stage.name is StageName.PROFILE
        place = checks.place(stage.name, calls.case)
        if sample.twin and not checks.twins(place):
            sample = SampleName(input=sample.input)
        calls.current = sample
        data, form = checks.make_input(place, sample), checks.form(place)
        caller, may_compile = self._job.callers[calls.case.role], calls.count < PLACES
        timeout_s = self._job.deadline.remaining(None if profiled else form, may_compile=may_compile)
        answer = caller.call(data, form, timeout_s=timeout_s, profile=profiled)
        calls.count += 1
        calls.profile, calls.trace = answer.profile, answer.trace
        fault = checks.fault(place, sample, data, answer) if not profiled else None
        if fault is not None:
            raise Wrong(sample, fault)

    # What a clock needs of the judge

    def attempt(self, stage: Stage, calls: CaseCalls | None, work: Callable[[], None]) -> CaseResult | None:
        """Do ``work``, which talks to the contestants. Return the case's result if it fails. Raise ``RunEnds``."""
        try:
            work()
        except Wrong as wrong:
            assert calls is not None
            calls.failed_on = wrong.sample
            return self._result(calls, Verdict.WRONG_ANSWER, wrong.fault)
        except CallFailed as failure:
            assert calls is not None
            verdict, reason = FAILURES[failure.kind]
            place, sample = self._job.checks.place(stage.name, calls.case), calls.current
            if reason is Reason.EXCEPTION and sample and not self._job.checks.counts(place, sample):
                return None
            calls.failed_on = sample
            line = line_in(failure.text, self._job.spec)
            return self._result(calls, verdict, Fault(reason=reason, text=failure.text), line=line)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            waited_s = sum(caller.waited_s for caller in self._job.callers.values())
            waited_s += sum(clock.waited_s for clock in self._job.clocks.values())
            called, longest_s = calls.case if calls is not None else None, self._job.deadline.longest_s
            longest_s = longest_s if self._job.deadline.remaining() else math.inf
            raise of_channel(error, stage, waited_s, called, longest_s) from error
        except Exception as error:
            ends = of_others(error, self._job.reservation)
            if ends is None:
                raise
            ends.role = ends.role if calls is None else calls.case.role
            raise ends from error
        if calls is not None and (text := calls.lacks_samples):
            return self._result(calls, Verdict.TIME_LIMIT_EXCEEDED, Fault(reason=Reason.TIME, text=text))
        return None

    def accepted(
        self, calls: CaseCalls, timing: Timing | None = None, beside: Beside = Beside()
    ) -> CaseResult:
        """Return the result of a case whose answers were all right."""
        timing = timing or calls.timing()
        return replace(
            self._result(calls, Verdict.ACCEPTED, Fault(reason=Reason.NONE, text="")),
            timing=timing and with_findings(timing, beside.findings),
            work=beside.work,
            floor_ns=beside.floor_ns,
            reference_ns=beside.reference_ns,
            baseline_ns=list(beside.baseline_ns),
        )

    def doubted(self, timing: Timing, findings: Sequence[Finding]) -> Timing:
        """Return a time with further findings. What holds it is reported at once: the run may end before its cases."""
        timing = with_findings(timing, findings)
        for finding in timing.audit.findings if timing.audit is not None else ():
            if finding.quarantines:
                self._job.runner.tell(Found(finding=finding))
        return timing

    def progress(self, stage: Stage, calls: CaseCalls) -> None:
        """Report that a case goes on."""
        self._job.runner.progress(stage, calls)

    def _result(
        self, calls: CaseCalls, verdict: Verdict, fault: Fault, *, line: int | None = None
    ) -> CaseResult:
        calls.has_failed = verdict is not Verdict.ACCEPTED
        return CaseResult(
            index=calls.case.index,
            parameters=calls.case.parameters,
            hidden=calls.case.hidden,
            weight=calls.case.weight,
            verdict=verdict,
            reason=fault.reason,
            message=fault.text[:MAX_MESSAGE],
            judge=fault.text.removesuffix(fault.quoted)[:MAX_MESSAGE] if fault.mismatch else None,
            line=line,
            met_hidden=calls.case.hidden,
            mismatch=fault.mismatch,
            failed_on=calls.failed_on,
            timing=calls.timing(),
            checks=calls.count,
            prepare_s=self._prepare_s.get(repr(parameters_of(calls.case))),
            profile=calls.profile,
            trace_gz64=calls.trace,
        )


def parameters_of(case: PlannedCase) -> Parameters:
    """Return the parameters of a case that a submission may know, by name: all but its seed."""
    return {name: case.parameters[name] for name in sorted(case.parameters) if name != "seed"}


def with_findings(timing: Timing, findings: Sequence[Finding]) -> Timing:
    """Return a time with further findings beside it; nothing else changes. A time that is not ranked has none."""
    if timing.audit is None:
        return timing
    return replace(timing, audit=replace(timing.audit, findings=[*timing.audit.findings, *findings]))
