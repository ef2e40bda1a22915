"""What one call of a task's reference takes, with its input and its check: budgets of timed cases follow from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.plan import Stage
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.protocol import FEWEST_SAMPLES, Backend, JobSpec, MeasureRules, SampleName

SAMPLE = SampleName(input=3 << 19)
"""Reserved for these calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """Seconds of one call of the reference."""

    inputs: float = 0.0
    """Of both."""
    reference: float = 0.0
    check: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of all of it."""
        return self.inputs + self.reference + self.check


def call(task: TaskCode, make: Callable[[], Any], enough_s: float = 0.0) -> Took:
    """Return what one call takes: an input, the reference's answer, an input again, and the check by it.

    The first call may compile, so the quicker of two is taken, unless the first takes at most ``enough_s``.
    Raise :class:`TaskFault`.
    """
    calls: list[Took] = []
    while not calls or (len(calls) < 2 and calls[0].total > enough_s):
        data, first_s = _timed(make)
        if not task.has_reference:
            calls.append(Took(inputs=first_s))
            continue
        answer, reference_s = _timed(partial(task.expected, data))
        # The reference may have overwritten its input.
        data, again_s = _timed(make)
        _, check_s = _timed(partial(task.check, data, answer))
        calls.append(Took(inputs=first_s + again_s, reference=reference_s, check=check_s))
    return min(calls, key=lambda each: each.total)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what some work returns, and its seconds on host and device."""
    began = time.monotonic()
    found = work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return found, time.monotonic() - began


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
            references_s.append(call(task, make, share).total)
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
