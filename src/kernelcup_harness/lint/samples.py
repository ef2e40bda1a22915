"""One input of a task with the answers that are tried on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelcup_harness.core import answer as core_answer
from kernelcup_harness.core import structure
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.task import TaskFault, seed_everything
from kernelcup_harness.doubt import near_twins, probes
from kernelcup_harness.lint import advice as lint_advice
from kernelcup_harness.lint import null_submissions
from kernelcup_harness.protocol import JobSpec, Parameters, SampleName, StageName
from kernelcup_harness.protocol.lint import CaseList, Null
from kernelcup_harness.protocol.seeds import derive_seed

MOST_PARTS = 8
OTHER_SEED = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A case and its position."""

    list: CaseList
    index: int
    parameters: Parameters
    below: int | None = None
    """The bound for drawn seeds."""

    @property
    def name(self) -> str:
        """The case's name for people, for example ``tests.0``."""
        return f"{self.list.value}.{self.index}"

    @property
    def given(self) -> int | None:
        """The case's own seed."""
        seed = self.parameters.get("seed")
        return seed if isinstance(seed, int) else None

    def seed(self, sample: int) -> int:
        """Return the seed of one sample; the first is the task's own if it names one."""
        if sample == 0 and self.given is not None:
            return self.given
        return derive_seed(b"lint", self.list.value, self.index, self.given, sample, below=self.below)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer to give to the checker."""

    null: Null
    how: str
    value: Any
    part: str = ""
    """The only part that was replaced; empty for all."""

    @property
    def name(self) -> tuple[Null, str]:
        """Identifies the same kind of answer on another input."""
        return self.null, self.how


@dataclass(slots=True)
class Tally:
    """The outcome of one case."""

    asked: set[Null] = field(default_factory=set)
    tried: int = 0
    notes: list[str] = field(default_factory=list)


def each_by(make: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Return a change that ignores the path of a leaf."""
    return lambda _path, leaf: make(leaf)


def each_from(values: dict[str, Any]) -> Callable[[str, Any], Any]:
    """Return a change that replaces a leaf by the entry of ``values`` for its path."""
    return values.get


class OneInput(Checks):
    """The judge's checks of answers to one input, drawn from a seed of ours."""

    seed = 0

    def _seed(self, _place: Place, _number: int) -> tuple[int, int]:
        return self.seed, 0


class Input:
    """One input of a case, and the checks of answers to it: the task's, and the judge's with all its rules."""

    def __init__(self, task: Any, case: Case, number: int, spec: JobSpec) -> None:
        self._task = task
        self._case = case
        self._number = number
        self._spec = spec

    def refused(self, answer: Any) -> str:
        """Return the reason for which the judge refuses an answer that the checker accepts; empty if it accepts it."""
        checks = OneInput(self._task, b"", self._spec)
        checks.seed = self._case.seed(self._number)
        place, sample = Place(StageName.TEST, self._case.index, self._case.parameters), SampleName(input=0)
        fault = checks.fault(place, sample, self.data(), core_answer.Answer(output=answer))
        return fault.reason.value if fault is not None else ""

    def data(self) -> Any:
        """Return a fresh copy of the input, which the caller may overwrite."""
        return self._task.generate(self._case.parameters, self._case.seed(self._number))

    def check(self, answer: Any) -> str:
        """Return the fault found by the task's checker; a checker that fails has rejected the answer."""
        try:
            text: str = self._task.check(self.data(), answer)
        except TaskFault as fault:
            return str(fault) or "the checker failed"
        return text


class Sample(Input):
    """One input of a case with its right answer, and the nulls for it."""

    def __init__(self, task: Any, case: Case, number: int, spec: JobSpec) -> None:
        super().__init__(task, case, number, spec)
        self.expected = self._answer_to(number)
        self._inputs = null_submissions.leaves(self.data(), "input")
        parts = null_submissions.leaves(self.expected, "output")
        if task.in_place:
            # Parts that the reference leaves unchanged are not part of the answer.
            before = dict(null_submissions.leaves(self.data(), "output"))
            changed = [
                (p, leaf)
                for p, leaf in parts
                if p not in before or not null_submissions.is_equal(leaf, before[p])
            ]
            parts = changed or parts
        self.parts = parts

    def is_right(self, answer: Any) -> bool:
        """Return whether an answer is exactly the right one."""
        return null_submissions.is_equal(self.expected, answer)

    def reference_fault(self) -> str:
        """Return why the reference's answer is none: it differs from call to call, or the checker refuses it."""
        states = (", and with another state of PyTorch's generator", torch.manual_seed), ("", seed_everything)
        for why, reseed in states:
            data = self.data()
            reseed(OTHER_SEED)
            again = null_submissions.private(self._task.expected(data))
            if not self.is_right(again) and self.check(again):
                return f"ref_kernel gives different answers to the same input (call 1 and 2{why})"
        text = self.check(null_submissions.private(self.expected))
        return text and f"the checker refuses the output of ref_kernel: {text}"

    def precise(self) -> Any:
        """Return the reference's answer in double precision, None if it cannot compute it."""

        def widen(_path: str, leaf: torch.Tensor) -> torch.Tensor:
            return leaf.to(torch.float64) if leaf.is_floating_point() else leaf

        wanted = dict(null_submissions.leaves(self.expected, "output"))

        def narrow(path: str, leaf: torch.Tensor) -> torch.Tensor:
            return leaf.to(wanted[path].dtype) if path in wanted else leaf

        try:
            found = self._task.expected(null_submissions.rebuilt(self.data(), widen, "input"))
        except TaskFault:
            return None
        narrowed = null_submissions.rebuilt(found, narrow, "output")
        return None if structure.structure_fault(self.expected, narrowed) else narrowed

    def advice(self, answer: Answer, *, right: bool) -> str:
        """Return the suggestion for an answer that was accepted."""
        return lint_advice.advice(
            answer.null,
            self.expected,
            answer.value,
            precise=None if right else self.precise(),
            tolerance=self._task.tolerance,
            right=right,
        )

    def answers(self, notes: list[str]) -> Iterator[Answer]:
        """Make the nulls one after the other; note what cannot be made."""
        yield from self._made()
        yield from self._copies()
        yield from self._of_other_inputs(notes)
        yield from self._in_lower_precision(notes)
        yield from self._in_other_forms()
        yield from self._probes()

    def _probes(self) -> Iterator[Answer]:
        """Yield what the judge tries of a task, too: see ``doubt.probes``."""
        for path, leaf in () if self._spec.any_answer else self.parts[:MOST_PARTS]:
            for how, make in probes.far_off(leaf).items():
                if how != "all zeros" and probes.is_far_off(leaf, made := make()):
                    yield from self._in_part(Null.WITHIN_RANGE, how, path, made)
            for how, make in probes.narrower(leaf).items() if self._spec.dtypes is None else ():
                if self.check(self._replaced([path], each_from({path: make().to(leaf.dtype)}))):
                    yield from self._in_part(Null.NARROWER_DTYPE, how, path, make())

    def _in_other_forms(self) -> Iterator[Answer]:
        """Yield the right answer longer, shorter, in dtypes that do not hold it, and with hostile integers."""
        if type(self.expected) in (list, tuple):
            items = null_submissions.private(self.expected)
            for how, value in (("no items", items[:0]), ("twice the items", items + items)):
                yield Answer(null=Null.OTHER_FORM, how=how, value=value)
        for path, leaf in self.parts[:MOST_PARTS]:
            for how, other in null_submissions.other_forms(leaf).items():
                yield from self._in_part(Null.OTHER_FORM, how, path, other)
            for how, hostile in null_submissions.hostile_integers(leaf).items():
                yield from self._in_part(Null.HOSTILE_INTEGERS, how, path, hostile)

    def _in_part(self, null: Null, how: str, path: str, leaf: torch.Tensor) -> Iterator[Answer]:
        """Yield the right answer with one part replaced.

        A constant part is not a fault of the task if other parts vary.
        """
        value, alone = self._replaced([path], each_from({path: leaf})), len(self.parts) == 1
        if alone or not self.is_right(value):
            where = "" if alone else f", in {path} only"
            yield Answer(null=null, how=f"{how}{where}", value=value, part="" if alone else path)

    def _made(self) -> Iterator[Answer]:
        makers: dict[Null, tuple[str, Callable[[Any], Any]]] = {
            Null.ZEROS: ("all zeros", torch.zeros_like),
            Null.ONES: ("all ones", null_submissions.ones),
            Null.UNINITIALISED: ("random bytes", null_submissions.uninitialised),
            Null.ONE_PERCENT_WRONG: ("one element in a hundred wrong", null_submissions.one_percent_wrong),
            Null.LAST_TILE_MISSING: ("the last sixteenth missing", null_submissions.last_tile_missing),
        }
        for null, (how, make) in makers.items():
            yield from self._by_part(null, how, each_by(make))
        for null, how, make, fill in (
            (Null.NAN, "all NaN", null_submissions.nan, null_submissions.nan),
            (Null.INFINITE, "all infinite", null_submissions.infinite, null_submissions.infinite),
            (Null.INFINITE, "all as large as can be", null_submissions.largest, null_submissions.largest),
            (Null.HALF_NAN, "the second half NaN", null_submissions.half_nan, null_submissions.nan),
        ):
            # Integers and some 8-bit formats cannot hold it.
            able = [(path, leaf) for path, leaf in self.parts if fill(leaf) is not leaf]
            yield from self._by_part(null, how, each_by(make), able)

    def _by_part(
        self, null: Null, how: str, make: Callable[[str, Any], Any], among: list[Any] | None = None
    ) -> Iterator[Answer]:
        """Replace all parts of the answer, then each alone: a checker may check only some."""
        parts = self.parts if among is None else among
        if parts:
            yield Answer(null=null, how=how, value=self._replaced([path for path, _leaf in parts], make))
        if len(self.parts) > 1:
            for path, leaf in parts[:MOST_PARTS]:
                yield from self._in_part(null, how, path, make(path, leaf))

    def _replaced(self, paths: list[str], make: Callable[[str, Any], Any]) -> Any:
        wanted = set(paths)
        return null_submissions.rebuilt(
            null_submissions.private(self.expected),
            lambda path, leaf: make(path, leaf) if path in wanted else leaf,
            "output",
        )

    def _copies(self) -> Iterator[Answer]:
        for path, leaf in self.parts[:MOST_PARTS]:
            for source, copy in null_submissions.copies(leaf, self._inputs)[:MOST_PARTS]:
                yield from self._in_part(Null.COPY_OF_INPUT, source, path, copy)
        if len(self.parts) > 1:
            found = {path: null_submissions.copies(leaf, self._inputs) for path, leaf in self.parts}
            if all(found.values()):
                value = self._replaced(
                    list(found), each_from({path: copy[0][1] for path, copy in found.items()})
                )
                yield Answer(null=Null.COPY_OF_INPUT, how="inputs in all parts", value=value)

    def _of_other_inputs(self, notes: list[str]) -> Iterator[Answer]:
        others = {
            Null.PREVIOUS_ANSWER: ("the answer to the input before", self._number - 1),
            Null.OTHER_SEED: ("the answer to another seed's input", self._number + OTHER_SEED),
        }
        for null, (how, number) in others.items():
            value = self._answer_to(number)
            if structure.structure_fault(self.expected, value):
                notes.append(f"{null.value}: the answers to two inputs differ in form")
                continue
            yield from self._by_part(null, how, each_from(dict(null_submissions.leaves(value, "output"))))

    def _in_lower_precision(self, notes: list[str]) -> Iterator[Answer]:
        steps = [
            null_submissions.LOWER[leaf.dtype]
            for _path, leaf in self.parts
            if leaf.dtype in null_submissions.LOWER
        ]
        if not steps:
            notes.append("lower_precision: no output has a dtype with a lower precision")
            return
        for lower in steps[0]:
            name = str(lower).removeprefix("torch.")
            value = self._answer_in(lower)
            if value is None or structure.structure_fault(self.expected, value):
                notes.append(f"lower_precision: the reference cannot work with inputs rounded to {name}")
            elif self.is_right(value):
                notes.append(f"lower_precision: {name} gives exactly the right answer here")
            else:
                yield Answer(null=Null.LOWER_PRECISION, how=f"inputs and answer in {name}", value=value)

    def _answer_in(self, lower: Any) -> Any:
        """Return the answer with inputs and outputs rounded to ``lower``, None if there is none."""
        rough = null_submissions.rebuilt(
            self.data(), lambda _path, leaf: null_submissions.rounded(leaf, lower), "input"
        )
        try:
            found = null_submissions.private(self._task.expected(rough))
        except TaskFault:
            return None
        if structure.structure_fault(self.expected, found):
            return None
        parts = dict(null_submissions.leaves(found, "output"))
        return self._replaced(
            [path for path, _leaf in self.parts],
            lambda path, leaf: null_submissions.rounded(parts.get(path, leaf), lower),
        )

    def _answer_to(self, number: int) -> Any:
        data = self._task.generate(self._case.parameters, self._case.seed(number))
        return null_submissions.private(self._task.expected(data))


class BlindSample(Input):
    """One input of a task without a reference: the right answer is unknown."""

    parts: tuple[Any, ...] = ()

    def is_right(self, _answer: Any) -> bool:
        """Return False: the right answer is unknown."""
        return False

    def advice(self, answer: Answer, *, right: bool) -> str:
        """Return the suggestion for an answer that was accepted."""
        assert not right
        if answer.null is Null.COPY_OF_INPUT:
            return "if the input is a right answer, waive this null with the reason"
        return "the checker does not check every value; a `ref_kernel` would allow a better suggestion"

    def answers(self, notes: list[str]) -> Iterator[Answer]:
        """Yield the input as an answer, and values in the form of the input or of one of its tensors."""
        notes.append(
            "previous_answer, other_seed, one_percent_wrong, last_tile_missing, half_nan, lower_precision: "
            "the task has no `ref_kernel`, so the right answer is not known"
        )
        forms = {"input": self.data(), **dict(null_submissions.leaves(self.data(), "input")[:MOST_PARTS])}
        makers = {
            Null.COPY_OF_INPUT: ("{}", lambda leaf: leaf.clone()),
            Null.ZEROS: ("zeros in the form of {}", torch.zeros_like),
            Null.ONES: ("ones in the form of {}", null_submissions.ones),
            Null.UNINITIALISED: ("random bytes in the form of {}", null_submissions.uninitialised),
            Null.NAN: ("NaN in the form of {}", null_submissions.nan),
            Null.INFINITE: ("infinities in the form of {}", null_submissions.infinite),
            Null.WITHIN_RANGE: ("numbers as large as can be in the form of {}", null_submissions.largest),
            Null.OTHER_FORM: (
                "no elements in the place of {}",
                lambda leaf: leaf[..., :0] if leaf.dim() else leaf,
            ),
        }
        for form, value in forms.items():
            for null, (how, make) in makers.items():
                made = null_submissions.rebuilt(value, each_by(make), form)
                if null in (Null.NAN, Null.INFINITE) and near_twins.is_finite(made):
                    continue
                yield Answer(null=null, how=how.format(form), value=made)
