"""Correctness of a case: its inputs, the expected output, and the check of an answer."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch

from kernelcup_harness.core import blanks, finiteness, structure
from kernelcup_harness.core.answer import Answer, Form
from kernelcup_harness.core.plan import PlannedCase
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.protocol.base import Parameters
from kernelcup_harness.protocol.enums import Reason, StageName
from kernelcup_harness.protocol.results import Mismatch
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.protocol.spec import SampleName
from kernelcup_harness.wire import aliasing, devices, values

MOST_SHOWN = 200
"""Characters of the reason why an answer cannot be described."""


@dataclass(frozen=True, slots=True)
class Place:
    """A case of a stage."""

    stage: StageName
    index: int
    # A dict cannot be hashed; the other two name the case.
    parameters: Parameters

    @property
    def key(self) -> tuple[StageName, int]:
        """The key that identifies the place."""
        return self.stage, self.index


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Why an answer is wrong."""

    reason: Reason
    text: str
    mismatch: Mismatch | None = None


class Wrong(Exception):
    """An answer is wrong."""

    def __init__(self, sample: SampleName, fault: Fault) -> None:
        super().__init__(fault.text)
        self.sample = sample
        self.fault = fault


class MoreInputs(Protocol):
    """Adds inputs that are made by a change of others. What it does about other inputs is ignored."""

    def exist(self, place: Place, make: Callable[[int], Any]) -> bool:
        """Return whether inputs of a case can be changed; ``make`` makes the input with a number."""

    def change(self, place: Place, number: int, data: Any, make: Callable[[int], Any]) -> None:
        """Change the input with this number in place."""

    def is_input(self, place: Place, number: int, make: Callable[[int], Any]) -> bool:
        """Return whether the changed input is one of the task; if not, no answer to it is wrong."""


Explain = Callable[[Any, Any, tuple[float, float] | None, str], Mismatch | None]
"""Describes how an answer differs: expected, actual, tolerance, path. It may raise anything."""


class Checks:
    """Makes inputs and checks answers; neither leaves the judge's process.

    Args:
        secret: Ranked inputs are drawn from it.
        more: Adds inputs, None for none.
        explain: Describes wrong answers for people.
        aliasing: Whether answers may share memory with inputs even if the reference's do not.
        non_finite: Whether answers may be NaN or infinite where the reference's are finite.
        same_dtype: Whether an answer is wrong if its dtype differs from the reference's, even if the checker
            accepts it.
        seeds_below: Every drawn seed is less than this; None for 63 bits.
    """

    def __init__(
        self,
        task: TaskCode,
        secret: bytes,
        *,
        more: MoreInputs | None = None,
        explain: Explain = lambda *_: None,
        aliasing: bool = False,
        non_finite: bool = False,
        same_dtype: bool = False,
        seeds_below: int | None = None,
    ) -> None:
        self._task = task
        self._secret = secret
        self._more = more
        self._explain = explain
        self._aliasing = aliasing
        self._non_finite = non_finite
        self._same_dtype = same_dtype
        self._seeds_below = seeds_below
        self._forms: dict[tuple[StageName, int], Form] = {}
        self._shared: dict[tuple[StageName, int], set[int]] = {}
        self._repeats: dict[tuple[StageName, int], bool] = {}
        self._written: dict[tuple[StageName, int], set[int]] = {}
        self._right: set[tuple[StageName, int, int]] = set()

    @staticmethod
    def place(stage: StageName, case: PlannedCase) -> Place:
        return Place(stage, case.index, case.parameters)

    def make_input(self, place: Place, sample: SampleName) -> Any:
        """Return a fresh copy of an input, with equal contents for equal names. Raise ``TaskFault``."""
        data = self._made(place, sample.input)
        if sample.twin and self._more is not None:
            self._more.change(place, sample.input, data, partial(self._made, place))
        return data

    def _made(self, place: Place, number: int) -> Any:
        return self._task.generate(place.parameters, self._seed(place, number))

    def form(self, place: Place) -> Form | None:
        """Return the form of answers, None if the task has no reference."""
        if not self._task.has_reference:
            return None
        if place.key not in self._forms:
            # The reference may overwrite its input, so it gets one of its own.
            data = self.make_input(place, SampleName(input=0))
            given, began = aliasing.leaves(data), time.monotonic()
            expected = self._task.expected(data)
            if devices.on_gpu():
                torch.cuda.synchronize()
            took_s, form = time.monotonic() - began, Form.of(expected, in_place=self._task.in_place)
            self._forms[place.key] = replace(form, reference_s=took_s)
            answered = aliasing.leaves(expected)
            self._shared[place.key] = {there for _, there in aliasing.shared(answered, given)}
            self._repeats[place.key] = bool(aliasing.repeated(answered))
            if self._task.in_place:
                self._written[place.key] = differing(self.make_input(place, SampleName(input=0)), expected)
        return self._forms[place.key]

    def expected(self, data: Any) -> Any:
        """Return the reference's output for an input, which it may overwrite. Raise ``TaskFault``."""
        return self._task.expected(data)

    def has_twins(self, place: Place) -> bool:
        """Return whether inputs with one element of each tensor changed are still inputs of the task."""
        return self._more is not None and self._more.exist(place, partial(self._made, place))

    def fault(self, place: Place, sample: SampleName, data: Any, answer: Answer) -> Fault | None:
        """Return the fault of an answer to ``data``, None if it is right. Do not use ``data`` afterwards."""
        fault = (
            self._form_fault(place, sample, answer.output)
            or self._alias_fault(place, answer)
            or self._finite_fault(place, sample, answer.output)
            or self._input_fault(place, sample, data, answer.output)
        )
        if fault is None:
            text = self._checked(place, sample, data, answer.output)
            fault = self._differs(place, sample, answer.output, text) if text else None
        if fault is not None and sample.twin and not self._is_input(place, sample.input):
            return None
        if fault is None:
            self._right.add((*place.key, sample.input))
        return fault

    def _form_fault(self, place: Place, sample: SampleName, output: Any) -> Fault | None:
        form = self.form(place)
        if form is None or not structure.structure_fault(form.value, output, dtype=self._same_dtype):
            return None
        # Shapes may depend on the data: only this sample's own reference counts against it.
        return differs_in_form(self._expected(place, sample), output, dtype=self._same_dtype)

    def _alias_fault(self, place: Place, answer: Answer) -> Fault | None:
        form = self.form(place)
        if form is None or self._aliasing:
            return None
        if answer.repeats_itself and not self._repeats[place.key]:
            return Fault(reason=Reason.ALIASED, text="two tensors of the output share the same memory")
        for number in answer.shared_inputs:
            if not self._may_share(place, number):
                text = (
                    f"the output shares memory with tensor {number} of the input, which the task reads: "
                    "return a tensor of its own, or write into the output that the task hands over"
                )
                return Fault(reason=Reason.ALIASED, text=text)
        return None

    def _may_share(self, place: Place, number: int) -> bool:
        """Return whether the reference also shares this input's memory, or ignores the input's contents."""
        shared = self._shared[place.key]
        if number not in shared and self.is_only_written(place, number):
            shared.add(number)
        return number in shared

    def is_only_written(self, place: Place, number: int) -> bool:
        """Return whether a tensor of the input is only a place for the output: noise in it changes nothing."""
        sample = SampleName(input=0)
        data = self.make_input(place, sample)
        leaves = aliasing.leaves(data)
        if number >= len(leaves):
            return False
        blanks.fill_with_noise(leaves[number], random.Random(number))
        try:
            answer = self._task.expected(data)
            return not self._task.check(self.make_input(place, sample), answer)
        except TaskFault:
            return False

    def _input_fault(self, place: Place, sample: SampleName, data: Any, output: Any) -> Fault | None:
        """Return the fault of an answer in the input that changes what is only read: a checker may rely on that."""
        if self.form(place) is None or not self._task.in_place:
            return None
        changed = differing(data, output) - self._written[place.key]
        changed = changed and changed - differing(data, self._expected(place, sample))
        for number in sorted(changed):
            if not self.is_only_written(place, number):
                text = f"tensor {number} of the input was changed, which the reference only reads"
                return Fault(reason=Reason.WRITES_INPUT, text=text)
        return None

    def _finite_fault(self, place: Place, sample: SampleName, output: Any) -> Fault | None:
        """Return the fault of an answer that is not finite where the reference's is, else None."""
        if self._non_finite or not self._task.has_reference or finiteness.is_finite(output):
            return None
        expected = self._expected(place, sample)
        # An answer may have the form of another input's reference.
        if fault := differs_in_form(expected, output, dtype=self._same_dtype):
            return fault
        unexpected = finiteness.first_unexpected(expected, output)
        if unexpected is None:
            return None
        where, right, wrong = unexpected
        text = f"NaN or infinite in {where}, where the reference's answer is finite"
        plain, tolerance = partial(self._fault, place, sample), self._task.tolerance
        return guarded(text, plain, lambda: plain(text, self._explain(right, wrong, tolerance, where)))

    def _checked(self, place: Place, sample: SampleName, data: Any, output: Any) -> str:
        """Return the checker's fault. If the checker fails on this output only, the output is wrong."""
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
        """Return the fault of an answer that the checker rejects with ``text``."""
        if self.form(place) is None:
            return self._fault(place, sample, text)
        plain = partial(self._fault, place, sample)
        return guarded(text, plain, lambda: self._described(place, sample, output, text))

    def _described(self, place: Place, sample: SampleName, output: Any, text: str) -> Fault:
        expected = self._expected(place, sample)
        if fault := differs_in_form(expected, output, dtype=self._same_dtype):
            return fault
        another_dtype = structure.structure_fault(expected, output)
        if another_dtype and another_dtype not in text:
            text = f"{text}\n{another_dtype}"
        mismatch = self._explain(expected, output, self._task.tolerance, "output")
        return self._fault(place, sample, text, mismatch)

    def _fault(self, place: Place, sample: SampleName, text: str, mismatch: Mismatch | None = None) -> Fault:
        """Return a fault of the values; its reason names the kind of input."""
        reason = Reason.DIFFERS
        if sample.twin:
            reason = Reason.NEAR_TWIN
            text = f"on an input that differs from an earlier one in one element of each tensor: {text}"
        elif (*place.key, sample.input) in self._right:
            reason = Reason.REPEATED
            text = f"on an input that was answered correctly before: {text}"
        return Fault(reason=reason, text=text, mismatch=mismatch)

    def _expected(self, place: Place, sample: SampleName) -> Any:
        return self._task.expected(self.make_input(place, sample))

    def _is_input(self, place: Place, number: int) -> bool:
        return self._more is None or self._more.is_input(place, number, partial(self._made, place))

    def _seed(self, place: Place, number: int) -> int:
        """Return the seed of one input. The first is the case's own; only the ranked stage uses the secret."""
        given = place.parameters.get("seed")
        if number == 0 and isinstance(given, int):
            return given
        below = self._seeds_below
        if place.stage is StageName.RANKED:
            return derive_seed(self._secret, "ranked", place.index, number, below=below)
        return derive_seed(b"public", place.stage.value, place.index, given, number, below=below)


def differs_in_form(expected: Any, output: Any, *, dtype: bool) -> Fault | None:
    """Return the fault of an answer that has another form than the reference's, else None."""
    text = structure.structure_fault(expected, output, dtype=dtype)
    return Fault(reason=Reason.FORM, text=text) if text else None


def differing(one: Any, other: Any) -> set[int]:
    """Return the tensors in which two values of one form differ, in any bit."""
    pairs = zip(*(map(values.contiguous, aliasing.leaves(each)) for each in (one, other)), strict=True)
    return {n for n, pair in enumerate(pairs) if not torch.equal(*map(values.bytes_of, pair))}


def guarded(text: str, plain: Callable[[str], Fault], describe: Callable[[], Fault]) -> Fault:
    """Return the fault that ``describe`` makes. If it raises, return ``plain`` of ``text`` and a line about that."""
    try:
        return describe()
    except Exception as error:
        why = f"the difference cannot be described ({type(error).__name__}: {error})"
        return plain(f"{text}\n{why[:MOST_SHOWN]}")
