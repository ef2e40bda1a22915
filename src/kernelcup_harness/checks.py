"""What the judge knows of a case: its inputs, what is right, and whether an answer is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness import aliasing, comparing, twins, wire
from kernelcup_harness.answers import Answer, Form, Pending, claimed, expect, was_late
from kernelcup_harness.protocol import Mismatch, Parameters, Reason, SampleName, StageName
from kernelcup_harness.schedule import PlannedCase
from kernelcup_harness.seeds import derive_seed
from kernelcup_harness.task_code import TaskCode, TaskFault


@dataclass(frozen=True, slots=True)
class Place:
    """A case of a stage."""

    stage: StageName
    index: int
    # A dict cannot be hashed; the other two name the case.
    parameters: Parameters

    @property
    def key(self) -> tuple[StageName, int]:
        """What tells it from other places."""
        return self.stage, self.index


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Why an answer is wrong."""

    reason: Reason
    text: str
    mismatch: Mismatch | None = None


class Checks:
    """Makes inputs and checks answers, with nothing of either in any other process.

    Args:
        secret: From which ranked inputs are drawn.
        aliasing: Whether answers may share memory with inputs whatever the reference does.
    """

    def __init__(self, task: TaskCode, secret: bytes, *, aliasing: bool) -> None:
        self._task = task
        self._secret = secret
        self._aliasing = aliasing
        self._forms: dict[tuple[StageName, int], Form] = {}
        self._shared: dict[tuple[StageName, int], set[int]] = {}
        self._repeats: dict[tuple[StageName, int], bool] = {}
        self._twins: dict[tuple[StageName, int], bool] = {}
        self._right: set[tuple[StageName, int, int]] = set()

    @staticmethod
    def place(stage: StageName, case: PlannedCase) -> Place:
        """Return the place of a case."""
        return Place(stage, case.index, case.parameters)

    def make_input(self, place: Place, sample: SampleName) -> Any:
        """Return an input, the same one for the same name, and nobody else's copy. Raise ``TaskFault``."""
        data = self._task.generate(place.parameters, self._seed(place, sample.input))
        if sample.twin:
            self._change(place, sample, data)
        return data

    def form(self, place: Place) -> Form | None:
        """Return what answers look like, None where the task has no reference."""
        if not self._task.has_reference:
            return None
        if place.key not in self._forms:
            # The reference may overwrite its input, so it gets one of its own.
            data = self.make_input(place, SampleName(input=0))
            given = aliasing.leaves(data)
            expected = self._task.expected(data)
            self._forms[place.key] = Form.of(expected, in_place=self._task.in_place)
            answered = aliasing.leaves(expected)
            self._shared[place.key] = {there for _, there in aliasing.shared(answered, given)}
            self._repeats[place.key] = bool(aliasing.repeated(answered))
        return self._forms[place.key]

    def expected(self, data: Any) -> Any:
        """Return the reference's output for an input, which it may overwrite. Raise ``TaskFault``."""
        return self._task.expected(data)

    def twin_is_input(self, place: Place, number: int) -> bool:
        """Tell whether an input with one element changed is still one that the reference gets right."""
        if place.key not in self._twins:
            self._twins[place.key] = self._task.has_reference and self._reference_masters_twin(place, number)
        return self._twins[place.key]

    def fault(self, place: Place, sample: SampleName, data: Any, answer: Answer) -> Fault | None:
        """Return what is wrong with an answer to ``data``, which is spent afterwards."""
        found = self._form_fault(place, sample, answer.output) or self._alias_fault(place, answer)
        if found is None:
            text = self._checked(place, sample, data, answer.output)
            found = self._differs(place, sample, answer.output, text) if text else None
        if found is None:
            self._right.add((*place.key, sample.input))
        return found

    def _form_fault(self, place: Place, sample: SampleName, output: Any) -> Fault | None:
        form = self.form(place)
        if form is None or not comparing.structure_fault(form.value, output):
            return None
        # Shapes may depend on the data: only this sample's own reference counts against it.
        text = comparing.structure_fault(self._expected(place, sample), output)
        return Fault(reason=Reason.FORM, text=text) if text else None

    def _alias_fault(self, place: Place, answer: Answer) -> Fault | None:
        form = self.form(place)
        if form is None or self._aliasing:
            return None
        if answer.repeats_itself and not self._repeats[place.key]:
            return Fault(reason=Reason.ALIASED, text="two tensors of the output are one and the same memory")
        for number in answer.shared_inputs:
            if not self._may_share(place, number):
                text = (
                    f"the output shares memory with tensor {number} of the input, which the task reads: "
                    "return a tensor of its own, or write into the output that the task hands over"
                )
                return Fault(reason=Reason.ALIASED, text=text)
        return None

    def _may_share(self, place: Place, number: int) -> bool:
        """Tell whether the reference shares an input's memory too, or does not care what was in it."""
        shared = self._shared[place.key]
        if number not in shared and self._is_only_written(place, number):
            shared.add(number)
        return number in shared

    def _is_only_written(self, place: Place, number: int) -> bool:
        """Tell whether a tensor of the input is a place for the output: filled with noise it changes nothing."""
        sample = SampleName(input=0)
        data = self.make_input(place, sample)
        leaves = aliasing.leaves(data)
        if number >= len(leaves):
            return False
        fill_with_noise(leaves[number], random.Random(number))
        try:
            answer = self._task.expected(data)
            return not self._task.check(self.make_input(place, sample), answer)
        except TaskFault:
            return False

    def _checked(self, place: Place, sample: SampleName, data: Any, output: Any) -> str:
        """Return the checker's fault. One that fails on this output only has found the output wrong."""
        try:
            return self._task.check(data, output)
        except TaskFault as fault:
            if not self._task.has_reference or isinstance(fault.__cause__, torch.OutOfMemoryError):
                raise
            right = self._expected(place, sample)
            if self._task.check(self.make_input(place, sample), right):
                raise
            return f"the checker cannot work with this output: {fault}"

    def _differs(self, place: Place, sample: SampleName, output: Any, text: str) -> Fault:
        reason = Reason.DIFFERS
        if sample.twin:
            reason = Reason.NEAR_TWIN
            text = f"on an input that differs from an earlier one in one element: {text}"
        elif (*place.key, sample.input) in self._right:
            reason = Reason.REPEATED
            text = f"on an input that had been answered right before: {text}"
        if self.form(place) is None:
            return Fault(reason=reason, text=text)
        expected = self._expected(place, sample)
        mismatch = comparing.first_mismatch(expected, output, self._task.tolerance)
        return Fault(reason=reason, text=text, mismatch=mismatch)

    def _expected(self, place: Place, sample: SampleName) -> Any:
        return self._task.expected(self.make_input(place, sample))

    def _reference_masters_twin(self, place: Place, number: int) -> bool:
        sample = SampleName(input=number, twin=True)
        try:
            data = self._task.generate(place.parameters, self._seed(place, number))
            if not self._change(place, sample, data):
                return False
            return not self._task.check(data, self._expected(place, sample))
        except TaskFault:
            return False

    def _change(self, place: Place, sample: SampleName, data: Any) -> bool:
        chance = random.Random(derive_seed(self._secret, "twin", *place.key, sample.input))
        with torch.no_grad():
            return twins.change_one(data, chance)

    def _seed(self, place: Place, number: int) -> int:
        """Return the seed of one input; only the ranked stage draws from the secret."""
        if place.stage is StageName.RANKED:
            return derive_seed(self._secret, "ranked", place.index, number)
        given = place.parameters.get("seed")
        if number == 0 and isinstance(given, int):
            return given
        return derive_seed(b"public", place.stage.value, place.index, given, number)


def fill_with_noise(tensor: torch.Tensor, chance: random.Random) -> None:
    """Overwrite a tensor with random bytes of its kind."""
    generator = torch.Generator().manual_seed(chance.getrandbits(63))
    span = wire.span_of(tensor)
    if not span:
        return
    size = span * tensor.element_size()
    noise = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
    if tensor.dtype is torch.bool:
        noise &= 1
    torch.as_strided(tensor, (span,), (1,)).copy_(noise.view(tensor.dtype))


def unopened(pending: Pending) -> Answer:
    """Return what an answer claims, without the output. Raise ``CallFailed`` or ``BrokenProtocol``."""
    expect(pending.reply, "done")
    ns = claimed(pending.reply.get("ns"), pending)
    return Answer(ns=ns, late=was_late(pending.reply), wall_ns=pending.wall_ns)
