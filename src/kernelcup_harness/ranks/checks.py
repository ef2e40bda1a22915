"""Correctness of a case in the judge of one GPU rank.

Reference and checker may communicate, so the judges of all ranks call them in the same order, whatever one of them has
found: no step depends on an answer, or on what an earlier step said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernelcup_harness.core import structure
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import SHARES, Checks, Fault, Place, holds_noise
from kernelcup_harness.core.forms import Forms
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.explain.differences import first_mismatch
from kernelcup_harness.protocol import JobSpec, Reason, SampleName


class RankTask(TaskCode):
    """The task's code, called with a GPU rank if its generator takes one."""

    rank = 0

    def generate(self, parameters: dict[str, Any], seed: int, salt: int = 0) -> Any:
        """Return this rank's part of an input."""
        more = {"rank": self.rank} if "rank" in self._names else {}
        return super().generate({**parameters, **more}, seed, salt)

    def _only_writes(self, *_arguments: Any) -> bool:
        """Memory that the generator leaves unwritten holds zeros: to ask the reference, all ranks would have to."""
        return False


class RankForms(Forms):
    """The form of answers, by one call of the reference."""

    def _of_no_effect(self, place: Place) -> set[int]:
        return set(self._forms[place.key].unread)


class RankChecks(Checks):
    """Makes the inputs of one GPU rank and checks its answers, in two steps that all ranks take together."""

    def __init__(self, task: RankTask, secret: bytes, spec: JobSpec) -> None:
        super().__init__(task, secret, spec, explain=first_mismatch)
        self._forms = RankForms(task, self.make_input, self._ask, spec)
        self._right_answer: Any = None
        self._output: Any = None

    def compared(self, place: Place, sample: SampleName, answer: Answer | None) -> Fault | None:
        """Call the reference; return the fault of the form of an answer, None if it has none."""
        self._right_answer = (
            self.expected(self.make_input(place, sample)) if self._task.has_reference else None
        )
        if answer is None:
            return None
        self._output = answer.output
        if not self._task.has_reference:
            return None
        try:
            self._output = structure.fitted(self._right_answer, answer.output, self._dtypes)
        except structure.Misfit as misfit:
            return Fault(reason=misfit.reason, text=str(misfit))
        return self._unexpected(place, sample, self._right_answer, self._output)

    def checked(
        self, place: Place, sample: SampleName, *, overwritten: bool, right: bool = False
    ) -> Fault | None:
        """Call the checker on the answer that was compared last; with ``right`` on the reference's own.

        Raise ``TaskFault``.
        """
        output = self._right_answer if right else self._output
        text = self._task.checked(self._task.given(self.make_input(place, sample)), output)
        if not text:
            self._right.add((*place.key, sample.input))
            return None
        if overwritten and holds_noise(output):
            return Fault(reason=Reason.ALIASED, text=SHARES.format("a tensor"))
        known = self._right_answer is not None
        mismatch = (
            first_mismatch(self._right_answer, output, self._task.tolerance, "output") if known else None
        )
        return replace(self._fault(place, sample, text, mismatch), quoted=text)
