"""What one call of a task's reference takes, with its input and its check: budgets of timed cases follow from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.plan import Stage
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.protocol import FEWEST_SAMPLES, Backend, JobSpec, MeasureRules, SampleName

SAMPLE = SampleName(input=3 << 19)
"""Reserved for these calls."""


def seconds(task: TaskCode, make: Callable[[], Any], enough_s: float = 0.0) -> float:
    """Return the seconds of one call: an input, the reference's answer, an input again, and the check by it.

    The first call may compile, so the quicker of two is taken, unless the first takes at most ``enough_s``.
    Raise :class:`TaskFault`.
    """
    times_s: list[float] = []
    while not times_s or (len(times_s) < 2 and times_s[0] > enough_s):
        began = time.monotonic()
        data = make()
        if task.has_reference:
            answer = task.expected(data)
            # The reference may have overwritten its input. The check waits for the device.
            task.check(make(), answer)
        times_s.append(time.monotonic() - began)
    return min(times_s)


def of_stage(task: TaskCode, checks: Checks, stage: Stage, rules: MeasureRules) -> list[float]:
    """Return the seconds of each case of a stage, at most so long that 16 of each fit into its longest budget.

    Failures of the task are reported when the case itself is called, so they end the list here.
    """
    share = rules.stage_budget_s / max(1, stage.total) / FEWEST_SAMPLES
    until, references_s = time.monotonic() + rules.most_stage_s, list[float]()
    for case in stage.cases:
        if time.monotonic() > until:
            break
        make = partial(checks.make_input, checks.place(stage.name, case), SAMPLE)
        try:
            references_s.append(seconds(task, make, share))
        except (TaskFault, torch.OutOfMemoryError):
            break
    needed_s = FEWEST_SAMPLES * sum(references_s)
    shrink = min(1.0, rules.most_stage_s / needed_s) if needed_s else 1.0
    return [shrink * each for each in references_s]


def of_job(spec: JobSpec, stages: Sequence[Stage], task: TaskCode, checks: Checks) -> list[float]:
    """Return the seconds of each timed case: those that the job names, or measured; none if none is needed."""
    timed = next((stage for stage in stages if stage.timed and stage.replayed is None), None)
    if timed is None or spec.reference_s or spec.backend is Backend.EMULATED:
        known = dict(enumerate(spec.reference_s))
        return [known[case.index] for case in timed.cases if case.index in known] if timed is not None else []
    return of_stage(task, checks, timed, spec.rules)
