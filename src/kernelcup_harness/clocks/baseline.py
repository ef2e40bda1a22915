"""Times of the baseline that speedups are relative to, measured before any code of the submission runs."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

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


def measured(
    spec: JobSpec, stages: Sequence[Stage], task: TaskCode, checks: Checks, time_ns: Timer
) -> Mapping[tuple[StageName, int], list[float]]:
    """Return the times of each timed case in nanoseconds, less that of an empty call, by stage and index.

    Its first answer to each case is checked. Raise ``RunEnds`` if it fails: the fault is the task's.
    """
    try:
        call = task.expected if not spec.baseline else loaded(spec.baseline)
        empty_ns = statistics.median(time_ns(lambda: None) for _ in range(EMPTY_CALLS))
        return {
            (stage.name, case.index): _samples(
                spec, len(stage.cases), partial(_made, checks, stage, case), call, task, time_ns, empty_ns
            )
            for stage in stages
            for case in stage.cases
        }
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
    return checks.make_input(checks.place(stage.name, case), SampleName(input=FIRST_INPUT + number))


def _samples(
    spec: JobSpec,
    cases: int,
    make: Callable[[int], Any],
    call: Callable[[Any], Any],
    task: TaskCode,
    time_ns: Timer,
    empty_ns: float,
) -> list[float]:
    rules, began = spec.rules, time.monotonic()
    part_s = SHARE * rules.stage_budget_s / max(1, cases)
    data = make(0)
    answer = call(data)
    # It may have been written into its input.
    if fault := task.check(make(0), data if answer is None else answer):
        raise TaskFault(f"the baseline's answer is wrong: {fault}")
    for number in range(1, rules.warmups):
        call(make(number))
    times_ns: list[float] = []
    while len(times_ns) < rules.max_samples:
        spent_s = time.monotonic() - began
        if spent_s > LONGEST * part_s or (spent_s > part_s and len(times_ns) >= rules.min_samples):
            break
        time_of = time_ns(partial(call, make(rules.warmups + len(times_ns))))
        times_ns.append(max(1.0, time_of - empty_ns))
    return times_ns or [max(1.0, time_ns(partial(call, make(rules.warmups))) - empty_ns)]
