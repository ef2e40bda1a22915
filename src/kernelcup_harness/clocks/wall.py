"""Times by the judge's wall clock: each sample runs from before an input is handed out until the judge has the whole
answer.

Nothing is subtracted, so a submission gains nothing by lying, by reading its input early or by working on
afterwards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kernelcup_harness.clocks.replay.rival import BY_WALL_CLOCK, SEVERAL_GPUS, not_held
from kernelcup_harness.clocks.sampling import Doubt, Plans, TimedCase, turns
from kernelcup_harness.core.call import PLACES, Calls
from kernelcup_harness.core.check import Checks, Wrong
from kernelcup_harness.core.judge import Beside, Judge
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.protocol import Audit, CaseResult, Finding, StageName, Timing, TrustLevel
from kernelcup_harness.wire.job_messages import Dueled


class WallClock:
    """Times ordinary calls.

    Args:
        plans: Makes the plans of the cases.
        checks: Makes inputs and checks answers.
        calls_of: Returns what makes the calls of a case.
        overhead_ns: Returns what a call that computes nothing takes if it is made this way.
        remaining: Returns the seconds left of the stage, or of a call.
        doubt: Doubts ranked times.
        runner: To the runner.
    """

    waited_s = 0.0

    def __init__(
        self,
        plans: Plans,
        *,
        checks: Checks,
        calls_of: Callable[[Stage, PlannedCase], Calls],
        overhead_ns: Callable[[Stage, PlannedCase, Calls], float | None],
        remaining: Callable[..., float],
        doubt: Doubt,
        runner: RunnerLine,
    ) -> None:
        self._plans = plans
        self._checks = checks
        self._calls_of = calls_of
        self._overhead_ns = overhead_ns
        self._remaining = remaining
        self._doubt = doubt
        self._runner = runner

    def results(self, stage: Stage, judge: Judge, known: Sequence[Finding] = ()) -> Iterator[CaseResult]:
        """Call the cases of a stage in turns, and yield each result as its case finishes.

        ``known`` has what is already known against ranked times.
        """
        self._doubt.begin()
        ranks = stage.name is StageName.RANKED and stage.replayed is None
        calls = {case.index: self._calls_of(stage, case) for case in stage.cases}
        cases = self._plans.cases(stage, lambda case: self._overhead_ns(stage, case, calls[case.index]))
        with self._runner.phase(f"{stage.name.value}/calls"):
            for case in turns(cases, self._plans.chance):
                work = partial(self._sample, stage, case, calls[case.case.index])
                failed = judge.attempt(stage, case, work)
                if failed is not None:
                    yield failed
                    if not stage.partial:
                        return
                    continue
                judge.progress(stage, case)
                if case.finished and not ranks:
                    yield judge.accepted(case)
        if ranks:
            left = [case for case in cases if not case.has_failed]
            yield from self._ranked(stage, left, judge, known)

    def _ranked(
        self, stage: Stage, cases: Sequence[TimedCase], judge: Judge, known: Sequence[Finding]
    ) -> Iterator[CaseResult]:
        """Have the times doubted when all cases are timed, and yield the results."""
        spec = self._plans.spec
        if spec.rival is not None:
            self._runner.tell(Dueled(duel=not_held(SEVERAL_GPUS if spec.multi_gpu else BY_WALL_CLOCK)))
        timed, beside = list[tuple[PlannedCase, Timing]](), list[Beside]()

        def doubt() -> None:
            for case in cases:
                timing = self.ranked(stage, case)
                findings = [*self._doubt.findings(case.case, timing), *known]
                timed.append((case.case, judge.doubted(timing, findings)))
            beside.extend(self._doubt.beside(stage, timed))

        failed = judge.attempt(stage, cases[0] if cases else None, doubt)
        if failed is not None:
            yield failed
            return
        for case, (_, timing), more in zip(cases, timed, beside, strict=True):
            yield judge.accepted(case, timing, more)

    def ranked(self, _stage: Stage, case: TimedCase) -> Timing:
        """Return the times of a case; the mean of the samples without the extremes ranks, and nothing is subtracted."""
        timing = case.timing()
        assert timing is not None
        audit = Audit(score_ns=timing.raw_ns, level=TrustLevel.WALL_CLOCK)
        return case.timing(audit) or timing

    def _sample(self, stage: Stage, case: TimedCase, calls: Calls) -> None:
        """Call the contestant once and check what it returned. Raise ``Wrong``."""
        sample, counts = case.next_sample()
        began, checks = time.monotonic(), self._checks
        place = checks.place(stage.name, case.case)
        sample = case.use(sample, partial(checks.twins, place))
        data, form = checks.make_input(place, sample), checks.form(place)
        timeout_s = self._remaining(form, may_compile=case.count < PLACES)
        answer = calls.open(calls.timed(data, form, timeout_s=timeout_s))
        clock, slowed_down = self._doubt.look() if counts else (None, False)
        counts = counts and not math.isnan(answer.ns)
        fault = checks.fault(place, sample, data, answer)
        spent_s = time.monotonic() - began
        case.add(answer, counts=counts, spent_s=spent_s, clock_mhz=clock, slowed_down=slowed_down)
        if fault is not None:
            raise Wrong(sample, fault)
