"""Times of the baseline that speedups are relative to, measured before any code of the submission runs."""

from __future__ import annotations

import importlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.plan import Stage
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.protocol import JobSpec, Reason, SampleName, StageName, Verdict

FIRST_INPUT = 5 << 19
"""Input numbers from here on are reserved for the baseline."""
SHARE = 0.5
"""Its part of the time that a stage has for its samples."""
LONGEST = 4.0
"""How many times its part it may take until each case has its least number of samples."""
EMPTY_CALLS = 5

Timer = Callable[[Callable[[], Any]], float]


class ReplayTimer(Protocol):
    """Times calls as those of a submission that is replayed."""

    def times_ns(
        self, call: Callable[[Any], Any], makes: Iterator[Callable[[], Any]], about_ns: float
    ) -> Iterator[list[float]]:
        """Yield the times of a few calls after the other; nothing if they cannot be captured."""


def measured(
    spec: JobSpec,
    stages: Sequence[Stage],
    task: TaskCode,
    checks: Checks,
    time_ns: Timer,
    replays: ReplayTimer | None = None,
) -> Mapping[tuple[StageName, int, bool], list[float]]:
    """Return the times of each timed case in nanoseconds, by stage and index and whether its graph was replayed.

    Those of calls have the time of an empty one subtracted; a baseline that cannot be captured has only these.

    Its first answer to each case is checked. Raise ``RunEnds`` if it fails: the fault is the task's.

    Args:
        spec: The job.
        stages: The timed ones.
        task: Its code.
        checks: Makes inputs.
        time_ns: Times a call.
        replays: Times calls as a replayed submission's; None where none is replayed.
    """
    try:
        call = task.expected if not spec.baseline else loaded(spec.baseline)
        empty_ns = statistics.median(time_ns(lambda: None) for _ in range(EMPTY_CALLS))
        found: dict[tuple[StageName, int, bool], list[float]] = {}
        for stage in stages:
            part_s = SHARE * spec.rules.stage_budget_s / max(1, len(stage.cases)) / (2 if replays else 1)
            for case in stage.cases:
                makes = (
                    partial(_made, checks, stage, case, FIRST_INPUT + number) for number in itertools.count()
                )
                _check(call, task, next(makes))
                for make in itertools.islice(makes, max(0, spec.rules.warmups - 1)):
                    call(make())
                called = ([time_ns(partial(call, make())) - empty_ns] for make in makes)
                called_ns = _enough(spec, called, part_s)
                about_ns = statistics.median(called_ns)
                found[stage.name, case.index, False] = called_ns
                if replays is not None:
                    replayed_ns = replays.times_ns(call, makes, about_ns)
                    found[stage.name, case.index, True] = _enough(spec, replayed_ns, part_s)
        return found
    except TaskFault as fault:
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, str(fault)) from fault
    except Exception as error:
        text = f"the baseline failed: {type(error).__name__}: {error}"
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, text) from error


def loaded(name: str) -> Callable[[Any], Any]:
    """Return the function of a module that is called as a submission is. Raise :class:`TaskFault`."""
    found = getattr(importlib.import_module(name), "custom_kernel", None)
    if not callable(found):
        raise TaskFault(f"the baseline {name}.py defines no function custom_kernel")
    return found  # type: ignore[no-any-return]


def _made(checks: Checks, stage: Stage, case: Any, number: int) -> Any:
    return checks.make_input(checks.place(stage.name, case), SampleName(input=number))


def _check(call: Callable[[Any], Any], task: TaskCode, make: Callable[[], Any]) -> None:
    data = make()
    answer = call(data)
    # It may have been written into its input.
    if fault := task.check(make(), data if answer is None else answer):
        raise TaskFault(f"the baseline's answer is wrong: {fault}")


def _enough(spec: JobSpec, samples: Iterator[list[float]], part_s: float) -> list[float]:
    """Return as many times as a case has, fewer if they take too long; at least one if there are any."""
    rules, began, times_ns = spec.rules, time.monotonic(), list[float]()
    for some in samples:
        times_ns += [max(1.0, each) for each in some]
        spent_s = time.monotonic() - began
        is_late = spent_s > LONGEST * part_s or (spent_s > part_s and len(times_ns) >= rules.min_samples)
        if is_late or len(times_ns) >= rules.max_samples:
            break
    return times_ns[: rules.max_samples]
