"""The overhead of a call by the wall clock: measured with a kernel that computes nothing, before the submission is
imported, and reported beside the time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import torch

from kernelcup_harness.core.answer import CallFailed, Form
from kernelcup_harness.core.call import Caller, Calls
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.plan import PlannedCase, Stage
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import MachineFailed
from kernelcup_harness.protocol import SampleName
from kernelcup_harness.wire import values
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Ready, UseNoop

OVERHEADS_S = 0.5
"""Time for measuring the overheads of all cases together."""
SAMPLES, UNCOUNTED = 9, 2
TIMEOUT_S = 30.0


class Overheads:
    """The times of calls that compute nothing, by stage and case.

    Args:
        checks: Makes inputs and knows the form of answers.
        callers: To the contestants by role, which have not imported the submission.
        calls_of: Returns what makes the calls of a case.
    """

    def __init__(
        self, checks: Checks, callers: Mapping[str, Caller], calls_of: Callable[[Stage, PlannedCase], Calls]
    ) -> None:
        self._checks = checks
        self._callers = callers
        self._calls_of = calls_of
        self._found_ns: dict[tuple[str, int, type], float] = {}

    def measure(self, stages: Sequence[Stage], clock: Callable[[], float] = time.monotonic) -> None:
        """Measure as many cases as there is time for. Raise :class:`MachineFailed`."""
        wanted = [(stage, case) for stage in stages if stage.timed for case in stage.cases]
        until = clock() + OVERHEADS_S
        for stage, case in wanted:
            if clock() > until:
                break
            # A failure of the task or a lack of memory is reported when the case itself is called.
            with suppress(TaskFault, values.CannotCarry, torch.OutOfMemoryError):
                calls = self._calls_of(stage, case)
                key = stage.name.value, case.index, type(calls)
                self._found_ns[key] = self._measured(stage, case, calls, until, clock)
        for role in {case.role for _, case in wanted}:
            self._ours(partial(self._callers[role].forget, timeout_s=TIMEOUT_S))

    def of(self, stage: Stage, case: PlannedCase, calls: Calls) -> float | None:
        """Return the overhead of a case in nanoseconds, None if it was not measured with calls of this kind."""
        return self._found_ns.get((stage.name.value, case.index, type(calls)))

    def _measured(
        self, stage: Stage, case: PlannedCase, calls: Calls, until: float, clock: Callable[[], float]
    ) -> float:
        place = self._checks.place(stage.name, case)
        data, form = self._checks.make_input(place, SampleName(input=0)), self._checks.form(place)
        samples = list[float]()

        def sample() -> None:
            use_noop(self._callers[case.role], form)
            while len(samples) < UNCOUNTED + 1 or (len(samples) < UNCOUNTED + SAMPLES and clock() < until):
                samples.append(calls.timed(data, form, timeout_s=TIMEOUT_S).wall_ns)

        self._ours(sample)
        return statistics.median(samples[UNCOUNTED:])

    def _ours(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise MachineFailed(str(error) or type(error).__name__) from error


def use_noop(caller: Caller, form: Form | None) -> None:
    """Have a contestant compute nothing: it answers in this form with whatever its memory holds."""
    encoder = values.Encoder()
    tree = encoder.tree(values.outline(form.value) if form is not None else None, "output")
    caller.line.ask(UseNoop(tree=tree, table=encoder.table()), Ready, timeout_s=TIMEOUT_S)
