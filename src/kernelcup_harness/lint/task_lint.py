"""What is tried of a task: its inputs under large seeds, its reference, and its checker on null submissions."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from kernelcup_harness.clocks import reference_time
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.device.emulated import places
from kernelcup_harness.lint.messages import (
    MAX_TEXT,
    MOST_NOTES,
    CasePlace,
    CaseTried,
    Fault,
    NullAccepted,
    PoorSeeds,
    ReferenceTimed,
)
from kernelcup_harness.lint.samples import MOST_PARTS, Answer, BlindSample, Case, Sample, Tally
from kernelcup_harness.lint.seed_trial import Trial, is_changed, measure
from kernelcup_harness.protocol import FEWEST_SAMPLES, Backend, JobSpec
from kernelcup_harness.protocol.lint import CaseList, Null
from kernelcup_harness.protocol.spec import FEW_SEEDS
from kernelcup_harness.wire import aliasing
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import pack

# A submission is called several times, on fresh inputs, so a null has to pass as often.
SAMPLES = 3
REFUSED = "the checker accepts it, the standard harness refuses it by itself (`{}`)"
STEP_S = 20.0
"""Time for trying seeds or the reference alone: no further case is begun afterwards."""
TIMED = (CaseList.BENCHMARKS, CaseList.HIDDEN_BENCHMARKS)


def cases_of(spec: JobSpec) -> list[Case]:
    """Return all cases of a job, hidden ones included."""
    return [
        Case(list=name, index=index, parameters=parameters, below=spec.seeds_below)
        for name in CaseList
        for index, parameters in enumerate(getattr(spec, name.value))
    ]


class TaskLint:
    """All cases of a task: their inputs under large seeds, the reference's own answers, the nulls."""

    def __init__(self, task: Any, spec: JobSpec, runner: Channel) -> None:
        self._task, self._spec = task, spec
        self._cases = cases_of(spec)
        self._below = spec.seeds_below
        self._runner = runner
        # A call that is quicker than this fits into any budget.
        self._enough_s = spec.rules.stage_budget_s / max(1, len(self._cases)) / FEWEST_SAMPLES

    def run(self, *, nulls: bool) -> None:
        """Try case after case, until the task's own code fails."""
        steps = [self._seeds, self._nulls if nulls else self._answers, self._times]
        try:
            for step in steps:
                step()
        except TaskFault as fault:
            at = CasePlace(list=self._case.list, index=self._case.index)
            self._runner.send(pack(Fault(text=str(fault)[:MAX_TEXT], at=at)))

    def _seeds(self) -> None:
        trial = Trial(self._below)
        for case in self._in_time() if self._task.takes_seed else ():
            trial.case(case.name, case.given, lambda seed, case=case: self._make(case, seed))  # type: ignore[misc]
        self._below = self._below if trial.proposal is None else trial.proposal
        is_open = self._below is not None and self._below < FEW_SEEDS and not self._is_salted()
        if trial.proposal is not None or trial.poor or is_open:
            self._cases = [dataclasses.replace(case, below=self._below) for case in self._cases]
            assert self._below is not None
            found = PoorSeeds(below=self._below, poor=trial.poor, why=trial.why[:MAX_TEXT], is_open=is_open)
            self._runner.send(pack(found))

    def _is_salted(self) -> bool:
        """Return whether a salt changes the inputs of all cases that there is time for."""
        for case in self._in_time():
            plain, salted = (measure(partial(self._make, case, salt=salt), 1) for salt in (0, 1))
            if not is_changed(plain, salted):
                return False
        return True

    def _make(self, case: Case, seed: int, salt: int = 0) -> Any:
        return self._task.generate(case.parameters, seed, salt)

    def _answers(self) -> None:
        for case in self._in_time():
            CaseLint(self._task, case, self._runner, self._spec).right_sample(0)

    def _nulls(self) -> None:
        for case in self._cases:
            self._case = case
            CaseLint(self._task, case, self._runner, self._spec).run()

    def _times(self) -> None:
        timed = [case for case in self._cases if case.list in TIMED]
        for case in self._in_time(timed):
            took = reference_time.call(self._task, partial(self._make, case, case.seed(1)), self._enough_s)
            at = CasePlace(list=case.list, index=case.index)
            parts = {"inputs_s": took.inputs, "reference_s": took.reference, "check_s": took.check}
            self._runner.send(pack(ReferenceTimed(at=at, **parts)))

    def _in_time(self, cases: Sequence[Case] | None = None) -> Iterator[Case]:
        """Yield the cases for which there is time, at least the first."""
        until = time.monotonic() + STEP_S
        for number, case in enumerate(self._cases if cases is None else cases):
            if number and time.monotonic() > until:
                return
            self._case = case
            yield case


class CaseLint:
    """All nulls against one case."""

    def __init__(self, task: Any, case: Case, runner: Channel, spec: JobSpec) -> None:
        self._task, self._spec = task, spec
        self._case = case
        self._at = CasePlace(list=case.list, index=case.index)
        self._runner = runner
        self._tally = Tally()

    def run(self) -> None:
        """Try every null and report each that is accepted, then the case."""
        try:
            self._try()
        except torch.OutOfMemoryError:
            self._tally.notes.append("not tried to the end: the device's memory is too small")
        tally = self._tally
        notes = [note[:MAX_TEXT] for note in tally.notes[:MOST_NOTES]]
        tried = CaseTried(at=self._at, asked=sorted(tally.asked), tried=tally.tried, notes=notes)
        self._runner.send(pack(tried))

    def _try(self) -> None:
        sample = self.right_sample(1)
        if os.environ.get("KERNELCUP_BACKEND", Backend.CPU) != Backend.CPU:
            self._tally.notes += self._on_host(sample)
        if len(sample.parts) > MOST_PARTS:
            self._tally.notes.append(f"only the first {MOST_PARTS} parts of the answer were tried alone")
        accepted = []
        for answer in sample.answers(self._tally.notes):
            self._tally.asked.add(answer.null)
            self._tally.tried += 1
            # Compared first: the checker may overwrite the answer.
            right = sample.is_right(answer.value)
            if not sample.check(answer.value):
                accepted.append((answer.name, right))
        for name, right in self._confirmed(accepted):
            self._report(sample, name, right)

    def _on_host(self, sample: Sample | BlindSample) -> Iterator[str]:
        """Yield a note for each tensor of the input, and of the answer, that no kernel can read."""
        data = sample.data()
        answer = self._task.expected(sample.data()) if self._task.has_reference else None
        for value, where in ((data, "input"), (answer, "output")):
            for path, tensor in aliasing.named_leaves(value, where):
                if tensor.device.type == "cpu":
                    line = places.made_at(tensor)
                    made = f", made in {line}," if line else ""
                    yield f"{path}{made} is on the host, where no kernel can read it"

    def _sample(self, number: int) -> Sample | BlindSample:
        kind = Sample if self._task.has_reference else BlindSample
        return kind(self._task, self._case, number, self._spec)

    def right_sample(self, number: int) -> Sample | BlindSample:
        """Return a sample. Raise ``TaskFault`` if the reference's own answer is none."""
        sample = self._sample(number)
        if isinstance(sample, Sample) and (text := sample.reference_fault()):
            raise TaskFault(text)
        return sample

    def _confirmed(
        self, accepted: list[tuple[tuple[Null, str], bool]]
    ) -> list[tuple[tuple[Null, str], bool]]:
        """Return those that are accepted on further inputs too, so not by luck."""
        for number in range(2, SAMPLES + 1):
            if not accepted:
                break
            sample = self._sample(number)
            again = {answer.name: answer.value for answer in self._wanted(sample, accepted)}
            still = []
            for name, right in accepted:
                if name in again:
                    right = right and sample.is_right(again[name])
                    if not sample.check(again[name]):
                        still.append((name, right))
            accepted = still
        return accepted

    def _wanted(
        self, sample: Sample | BlindSample, accepted: list[tuple[tuple[Null, str], bool]]
    ) -> Iterator[Answer]:
        names = {name for name, _right in accepted}
        return (answer for answer in sample.answers([]) if answer.name in names)

    def _report(self, sample: Sample | BlindSample, name: tuple[Null, str], right: bool) -> None:
        answer = next(self._wanted(sample, [(name, right)]))
        if reason := sample.refused(answer.value):
            self._tally.notes.append(f"{answer.null.value}: {answer.how}: {REFUSED.format(reason)}")
            return
        accepted = NullAccepted(
            at=self._at,
            null=answer.null,
            how=answer.how[:MAX_TEXT],
            part=answer.part[:MAX_TEXT],
            right=right,
            suggestion=sample.advice(answer, right=right)[:MAX_TEXT],
        )
        self._runner.send(pack(accepted))
