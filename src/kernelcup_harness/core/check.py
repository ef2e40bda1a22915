"""Correctness of a case: its inputs, the expected output, and the check of an answer."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from kernelcup_harness.core import ranges, structure
from kernelcup_harness.core.answer import NOISE, Answer, Form
from kernelcup_harness.core.forms import Forms
from kernelcup_harness.core.plan import PlannedCase
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.protocol.base import Parameters
from kernelcup_harness.protocol.enums import Reason, StageName
from kernelcup_harness.protocol.results import Mismatch
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.protocol.spec import FEW_SEEDS, JobSpec, SampleName
from kernelcup_harness.wire import aliasing, values

SHARES = (
    "the output shares memory with {} of the input, which the task reads: return a tensor of its own, or write into "
    "the output that the task hands over"
)
REMARK = (
    "a wrong answer to an input that differs from an earlier one in {} did not count: tensors of integers may have to "
    "agree. If they have to, the task says `near_twins: false`; if not, the submission does not read this one"
)
NAN = "NaN, which a checker without a `ref_kernel` cannot compare (a task that means it says `non_finite: true`)"
MOST_SHOWN = 200
"""Characters of the reason why an answer cannot be described."""
CHECK_S, CHECK_TIMES = 10.0, 20.0
"""A check ends after the larger of this many seconds and this multiple of the time of the reference's check."""


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
    quoted: str = ""
    """The checker's own lines, with which the text ends: before them are the judge's words."""


class Wrong(Exception):
    """An answer is wrong."""

    def __init__(self, sample: SampleName, fault: Fault) -> None:
        super().__init__(fault.text)
        self.sample = sample
        self.fault = fault


class MoreInputs(Protocol):
    """Adds inputs that are made by a change of others. What it does about other inputs is ignored."""

    def twins(self, place: Place, make: Callable[[int], Any]) -> Sequence[bool]:
        """Return for each twin of an input of a case whether a wrong answer to it counts; ``make`` makes the input with
        a number. Those that count come first, and if there are any twins, one counts."""

    def change(self, place: Place, sample: SampleName, data: Any, make: Callable[[int], Any]) -> None:
        """Change an input in place to its twin of that name."""

    def is_input(self, place: Place, sample: SampleName, make: Callable[[int], Any]) -> bool:
        """Return whether the twin is an input of the task; if not, no answer to it is wrong."""


Explain = Callable[[Any, Any, tuple[float, float] | None, str], Mismatch | None]
"""Describes how an answer differs: expected, actual, tolerance, path. It may raise anything."""


class Checker(Protocol):
    """Runs the task's checker on answers where it does no harm if one of them kills it."""

    def check(self, given: Any, output: Any, *, seed: int, limit_s: float) -> str:
        """Return the checker's fault of an output. Raise ``TaskFault`` if it fails, dies or takes longer.

        Args:
            given: What it gets beside the output, see ``TaskCode.given``.
            output: The output.
            seed: Seeds the random generators of the checker.
            limit_s: Its time limit in seconds.
        """


class Checks:
    """Makes inputs, and decides whether answers are right. What the task's checker says of them is asked elsewhere.

    Args:
        secret: Ranked inputs are drawn from it.
        spec: Has what the task allows of answers, and how large its seeds are. An unknown dtype raises ``LookupError``.
        more: Adds inputs, None for none.
        checker: Runs the task's checker on answers; None for this process.
        explain: Describes wrong answers for people.
    """

    def __init__(
        self,
        task: TaskCode,
        secret: bytes,
        spec: JobSpec,
        *,
        more: MoreInputs | None = None,
        checker: Checker | None = None,
        explain: Explain = lambda *_: None,
    ) -> None:
        self._task = task
        self._secret = secret
        self._more = more
        self._checker = checker
        self._limit_s = CHECK_S
        self._explain = explain
        self._spec = spec
        self._dtypes = structure.dtypes_of(spec.dtypes)
        self._salt = derive_seed(secret, "salt") if (spec.seeds_below or FEW_SEEDS) < FEW_SEEDS else 0
        self._forms = Forms(task, self.make_input, self._ask, spec)
        self._rooms: dict[tuple[StageName, int], list[ranges.Room] | None] = {}
        self._right: set[tuple[StageName, int, int]] = set()
        self.remarks: dict[int, str] = {}
        """What the task's author should know of wrong answers that do not count, by case."""

    @staticmethod
    def place(stage: StageName, case: PlannedCase) -> Place:
        return Place(stage, case.index, case.parameters)

    def make_input(self, place: Place, sample: SampleName) -> Any:
        """Return a fresh copy of an input, with equal contents for equal names. Raise ``TaskFault``."""
        data = self._made(place, sample.input)
        if sample.twin and self._more is not None:
            self._more.change(place, sample, data, partial(self._made, place))
        return data

    def _made(self, place: Place, number: int) -> Any:
        return self._task.generate(place.parameters, *self._seed(place, number))

    def form(self, place: Place) -> Form | None:
        """Return the form of answers, None if the task has no reference."""
        return self._forms.form(place) if self._task.has_reference else None

    def writable(self, place: Place) -> frozenset[int]:
        """Return the tensors of an input that calls may write: all if the task has no reference."""
        if self._task.has_reference:
            return self._forms.writable(place)
        return frozenset(range(len(aliasing.leaves(self._made(place, 0)))))

    def expected(self, data: Any) -> Any:
        """Return the reference's output for an input, which it may overwrite. Raise ``TaskFault``."""
        return self._task.expected(data)

    def twins(self, place: Place) -> Sequence[bool]:
        """Return for each twin of an input whether a wrong answer to it counts; nothing if there are no twins."""
        return self._more.twins(place, partial(self._made, place)) if self._more is not None else []

    def counts(self, place: Place, sample: SampleName) -> bool:
        """Return whether a wrong answer counts: only those to some twins do not."""
        if not sample.twin or self._more is None:
            return True
        if not self._more.is_input(place, sample, partial(self._made, place)):
            return False
        counts = self.twins(place)[sample.part]
        if not counts:
            self.remarks[place.index] = REMARK.format(self._changed(place, sample))
        return counts

    def fault(self, place: Place, sample: SampleName, data: Any, answer: Answer) -> Fault | None:
        """Return the fault of an answer to ``data``, None if it is right. Do not use ``data`` afterwards."""
        output, note = answer.output, ""
        try:
            if self._task.has_reference:
                output, note = self._forms.fitted(place, sample, data, output)
            fault = self._fault_of(place, sample, data, replace(answer, output=output))
        except structure.Misfit as misfit:
            fault = Fault(reason=misfit.reason, text=str(misfit))
        if fault is not None and note:
            fault = replace(fault, text=f"{note}\n{fault.text}")
        if fault is not None and not self.counts(place, sample):
            return None
        if fault is None:
            self._right.add((*place.key, sample.input))
        return fault

    def _fault_of(self, place: Place, sample: SampleName, data: Any, answer: Answer) -> Fault | None:
        """Return the fault of an answer that has the form of the reference's."""
        fault = self._alias_fault(place, answer) or self._number_fault(place, sample, data, answer.output)
        if fault is None:
            text, quoted = self._checked(place, sample, data, answer.output)
            fault = (
                replace(self._differs(place, sample, answer.output, text), quoted=quoted) if text else None
            )
        if fault is not None and answer.overwritten and holds_noise(answer.output):
            return Fault(reason=Reason.ALIASED, text=SHARES.format("a tensor"))
        return fault

    def _alias_fault(self, place: Place, answer: Answer) -> Fault | None:
        form = self.form(place)
        taken = form.private.intersection(answer.shared_inputs) if form is not None else None
        return Fault(reason=Reason.ALIASED, text=SHARES.format(f"tensor {min(taken)}")) if taken else None

    def _number_fault(self, place: Place, sample: SampleName, data: Any, output: Any) -> Fault | None:
        """Return the fault of an answer with a number that the reference's does not allow; its checker is not asked."""
        if ranges.is_near(output, self._rooms.get(place.key)):
            return None
        if not self._task.has_reference:
            is_nan = not self._spec.non_finite and any(end != end for end in ranges.all_ends(output))
            return self._fault(place, sample, NAN) if is_nan else None
        try:
            fresh = copy.deepcopy(data)
        except Exception:  # such as a tensor in a graph of autograd: to make it again takes longer
            fresh = self.make_input(place, sample)
        expected = self.expected(fresh)
        self._rooms[place.key] = None if self._spec.wide_answers else ranges.rooms_of(expected)
        # Two inputs of equal shapes may have answers of different shapes, which agreed until now.
        return self._unexpected(place, sample, expected, structure.fitted(expected, output, self._dtypes))

    def _unexpected(self, place: Place, sample: SampleName, expected: Any, output: Any) -> Fault | None:
        """Return the fault of a number of an answer, beside the reference's own."""
        finite, near = not self._spec.non_finite, not self._spec.wide_answers
        if (found := ranges.first_unexpected(expected, output, finite=finite, near=near)) is None:
            return None
        reason, text, where, right, wrong = found
        plain, tolerance = partial(self._fault, place, sample), self._task.tolerance
        fault = guarded(text, plain, lambda: plain(text, self._explain(right, wrong, tolerance, where)))
        return replace(fault, reason=reason) if fault.reason is Reason.DIFFERS else fault

    def _of_reference(self, place: Place, sample: SampleName) -> str:
        """Return what the checker says of the reference's answer, in whatever time it takes."""
        right = self._expected(place, sample)
        return self._asked(place, sample, self.make_input(place, sample), right, limit_s=math.inf)

    def _checked(self, place: Place, sample: SampleName, data: Any, output: Any) -> tuple[str, str]:
        """Return the fault and the checker's part of it. An output is wrong if it fails twice, and the reference's not.

        Between the two the checker has passed the reference's answer, so that neither the state that earlier answers
        left nor a slow first check is held against this one. Raise ``TaskFault`` if it fails there too. Of a task
        without a reference nothing else can be asked, so two failures are enough, the second in any time.
        """
        try:
            return (self._asked(place, sample, data, output),) * 2
        except TaskFault:
            began = time.monotonic()
            if self._task.has_reference and self._of_reference(place, sample):
                raise
            self._limit_s = max(self._limit_s, CHECK_TIMES * (time.monotonic() - began))
        try:
            limit_s = None if self._task.has_reference else math.inf
            return (self._asked(place, sample, self.make_input(place, sample), output, limit_s=limit_s),) * 2
        except TaskFault as fault:
            return f"the checker cannot work with this output: {fault}", ""

    def _asked(
        self, place: Place, sample: SampleName, data: Any, output: Any, *, limit_s: float | None = None
    ) -> str:
        # Not the seed of the input: a submission may know what follows from that, and fit its answer to it.
        seed = derive_seed(self._secret, "check", *place.key, sample.input, below=self._spec.seeds_below)
        return self._ask(data, output, seed=seed, limit_s=limit_s)

    def _ask(self, data: Any, output: Any, *, seed: int = 0, limit_s: float | None = None) -> str:
        given = self._task.given(data)
        if self._checker is None:
            return self._task.checked(given, output)
        return self._checker.check(given, output, seed=seed, limit_s=limit_s or self._limit_s)

    def _differs(self, place: Place, sample: SampleName, output: Any, text: str) -> Fault:
        """Return the fault of an answer that the checker rejects with ``text``."""
        if self.form(place) is None:
            return self._fault(place, sample, text)
        plain = partial(self._fault, place, sample)
        return guarded(text, plain, lambda: self._described(place, sample, output, text))

    def _described(self, place: Place, sample: SampleName, output: Any, text: str) -> Fault:
        expected = self._expected(place, sample)
        output = structure.fitted(expected, output, self._dtypes)
        another_dtype = structure.structure_fault(expected, output)
        if another_dtype and another_dtype not in text:
            text = f"{another_dtype}\n{text}"
        mismatch = self._explain(expected, output, self._task.tolerance, "output")
        return self._fault(place, sample, text, mismatch)

    def _fault(self, place: Place, sample: SampleName, text: str, mismatch: Mismatch | None = None) -> Fault:
        """Return a fault of the values; its reason names the kind of input."""
        reason = Reason.DIFFERS
        if sample.twin:
            reason = Reason.NEAR_TWIN
            text = f"on an input that differs from an earlier one in {self._changed(place, sample)}: {text}"
        elif (*place.key, sample.input) in self._right:
            reason = Reason.REPEATED
            text = f"on an input that was answered correctly before: {text}"
        return Fault(reason=reason, text=text, mismatch=mismatch)

    def _expected(self, place: Place, sample: SampleName) -> Any:
        return self._task.expected(self.make_input(place, sample))

    def _changed(self, place: Place, sample: SampleName) -> str:
        """Say what a twin changes: the first tensor, and its element before and after."""
        try:
            plain, twin = self._made(place, sample.input), self.make_input(place, sample)
            found = self._explain(plain, twin, (0.0, 0.0), "data")
            assert found is not None
            at = found.first[0]
            return f"one element of `{found.where}` (at {at.position}: {at.expected} -> {at.actual})"
        except Exception:
            return "one element"

    def _seed(self, place: Place, number: int) -> tuple[int, int]:
        """Return seed and salt of one input. The first is the case's own; only the ranked stage uses the secret."""
        given, below = place.parameters.get("seed"), self._spec.seeds_below
        if number == 0 and isinstance(given, int):
            return given, 0
        if place.stage is StageName.RANKED:
            return derive_seed(self._secret, "ranked", place.index, number, below=below), self._salt
        return derive_seed(b"public", place.stage.value, place.index, given, number, below=below), 0


def holds_noise(output: Any) -> bool:
    """Return whether a tensor of an answer has nothing but what the judge wrote over the inputs."""
    parts = (values.bytes_of(leaf) for leaf in aliasing.leaves(output) if leaf.numel())
    return any(bool((part == NOISE).all()) for part in parts)


def guarded(text: str, plain: Callable[[str], Fault], describe: Callable[[], Fault]) -> Fault:
    """Return the fault that ``describe`` makes. If it raises, return ``plain`` of ``text`` and a line about that.

    Raise ``Misfit`` if it does.
    """
    try:
        return describe()
    except structure.Misfit:
        raise
    except Exception as error:
        why = f"the difference cannot be described ({type(error).__name__}: {error})"
        return plain(f"{text}\n{why[:MOST_SHOWN]}")
