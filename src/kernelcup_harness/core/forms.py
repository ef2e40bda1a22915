"""The form of right answers, and which tensors of an input a call may write or answer with: as the reference does."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from kernelcup_harness.core import blanks, uses
from kernelcup_harness.core.answer import Form
from kernelcup_harness.core.structure import Misfit, WritesInput, fitted
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.protocol.spec import SampleName
from kernelcup_harness.wire import aliasing, values

if TYPE_CHECKING:
    from kernelcup_harness.core.check import Place

FIRST = SampleName(input=0)
ALIKE = 2
"""The number of inputs of equal shapes whose answers have to agree in form before the judge relies on it."""
MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """One call of the reference. Tensors of its input are numbered in the order of the tree."""

    output: Any
    names: list[str]
    """The tensors of its input."""
    written: set[int]
    read: set[int]
    """Those that operations of torch read."""
    shared: set[int]
    """Those whose memory its output uses."""
    repeats: bool
    """Whether two tensors of the output are one."""
    signature: str
    """Of its input."""


@dataclass(slots=True)
class Known:
    """The form of the answers to inputs of equal shapes; None once two of them had different ones."""

    form: Form | None = None
    samples: set[SampleName] = field(default_factory=set)

    def add(self, sample: SampleName, form: Form) -> None:
        """Note the form of one more answer of the reference."""
        is_same = not self.samples or (self.form is not None and self.form.described == form.described)
        self.form = form if is_same else None
        self.samples.add(sample)


class Forms:
    """Brings answers into the form of the reference's.

    Args:
        make_input: Returns a fresh copy of an input.
        dtypes: Those that tensors of answers may have beside the reference's; None for the usual ones.
        aliasing: Whether answers may use the memory of all inputs.
    """

    def __init__(
        self,
        task: TaskCode,
        make_input: Callable[[Place, SampleName], Any],
        dtypes: Collection[torch.dtype] | None,
        *,
        aliasing: bool,
    ) -> None:
        self._task = task
        self._make_input = make_input
        self.dtypes = dtypes
        self._aliasing = aliasing
        self._forms: dict[Any, Form] = {}
        self._firsts: dict[Any, Observed] = {}
        self._ignored: dict[Any, set[int]] = {}
        self._known: dict[Any, Known] = {}

    def form(self, place: Place) -> Form:
        """Return the form of the answer to a case's first input."""
        if place.key not in self._forms:
            seen = self._observed(place, FIRST)
            form = Form.of(seen.output, in_place=self._task.in_place)
            self._firsts[place.key] = replace(seen, output=None)
            self._known[*place.key, seen.signature] = Known(form, {FIRST})
            if not form.in_place and not self._aliasing:
                private = set(range(len(seen.names))) - seen.shared - self._of_no_effect(place)
                form = replace(form, private=frozenset(private))
            self._forms[place.key] = form
        return self._forms[place.key]

    def writable(self, place: Place) -> set[int]:
        """Return the tensors of an input that calls may write: what the reference writes, and what it never reads."""
        self.form(place)
        return self._firsts[place.key].written | self._of_no_effect(place)

    def fitted(self, place: Place, sample: SampleName, data: Any, output: Any) -> tuple[Any, str]:
        """Return an answer in the form of the reference's to this input. Raise :class:`Misfit`.

        Where the reference works in place, the judge's input is the answer, with the tensors that the reference
        writes as the call has left them. The text says what an author has to know if the call has changed nothing.
        """
        known = self._known.setdefault((*place.key, signature(data)), Known())
        in_place = self.form(place).in_place
        try:
            if known.form is None or len(known.samples) < ALIKE:
                raise Misfit
            value = fitted(known.form.value, output, "output", self.dtypes)
        except Misfit:
            expected = self._task.expected(self._make_input(place, sample))
            known.add(sample, Form.of(expected, in_place=in_place))
            value = fitted(expected, output, "output", self.dtypes)
        return self._rebuilt(place, sample, data, value) if in_place else (value, "")

    def _rebuilt(self, place: Place, sample: SampleName, data: Any, output: Any) -> tuple[Any, str]:
        """Return the judge's input with what a call has written. Raise :class:`WritesInput`."""
        first, changed = self._firsts[place.key], differing(data, output)
        more = changed - first.written
        if more:
            # What is written may depend on the input.
            more -= self._observed(place, sample).written
        for number in sorted(more - self._of_no_effect(place)):
            raise WritesInput(f"tensor {number} of the input was changed, which the reference only reads")
        pairs = enumerate(zip(aliasing.leaves(data), aliasing.leaves(output), strict=True))
        parts = iter([own.clone() if number in more else left for number, (own, left) in pairs])
        names = ", ".join(first.names[number] for number in sorted(first.written)[:MOST_NAMED])
        text = f"this task works in place: the answer has to be written into {names}, which was not changed"
        return values.with_tensors(data, lambda _own: next(parts)), "" if changed else text

    def repeats(self, place: Place) -> bool:
        """Return whether two tensors of the reference's output are one."""
        return self._firsts[place.key].repeats

    def _observed(self, place: Place, sample: SampleName) -> Observed:
        data = self._make_input(place, sample)
        given = aliasing.leaves(data)
        with uses.Uses(given) as used:
            output = self._task.expected(data)
        pristine = self._make_input(place, sample)
        before = list(aliasing.named_leaves(pristine, "data"))
        answered = aliasing.leaves(output)
        after = answered if self._task.in_place else given
        if len(after) != len(before):
            raise TaskFault("ref_kernel returns None (the task works in place), but adds or removes tensors")
        return Observed(
            output=output,
            names=[name for name, _ in before],
            written=used.written | differing([tensor for _, tensor in before], after),
            read=used.read,
            shared={there for _, there in aliasing.shared(answered, given)},
            repeats=bool(aliasing.repeated(answered)),
            signature=signature(pristine),
        )

    def _of_no_effect(self, place: Place) -> set[int]:
        """Return the tensors of an input whose contents change nothing, for example the place for an output."""
        if place.key not in self._ignored:
            seen = self._firsts[place.key]
            unread = set(range(len(seen.names))) - seen.read
            self._ignored[place.key] = {number for number in unread if self._is_ignored(place, number)}
        return self._ignored[place.key]

    def _is_ignored(self, place: Place, number: int) -> bool:
        """Return whether noise in a tensor of the input changes nothing."""
        data = self._make_input(place, FIRST)
        blanks.fill_with_noise(aliasing.leaves(data)[number], random.Random(number))
        try:
            answer = self._task.expected(data)
            return not self._task.check(self._make_input(place, FIRST), answer)
        except TaskFault:
            return False


def signature(data: Any) -> str:
    """Return what the form of an answer may follow from but elements: structure, shapes and whole numbers."""
    encoder = values.Encoder()
    plain = values.with_tensors(data, aliasing.DETACH, lambda leaf: 0.0 if isinstance(leaf, float) else leaf)
    return repr((encoder.tree(plain, "input"), encoder.table()))


def differing(one: Any, other: Any) -> set[int]:
    """Return the tensors in which two values of one form differ, in any bit."""
    pairs = zip(*(map(values.contiguous, aliasing.leaves(each)) for each in (one, other)), strict=True)
    return {n for n, pair in enumerate(pairs) if not torch.equal(*map(values.bytes_of, pair))}
