"""The form of right answers, and which tensors of an input a call may write or answer with: as the reference does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from kernelcup_harness.core import uses
from kernelcup_harness.core.answer import Form
from kernelcup_harness.core.structure import WritesInput, dtypes_of, fitted, structure_fault
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.protocol.spec import JobSpec, SampleName
from kernelcup_harness.wire import aliasing, devices, records, values

if TYPE_CHECKING:
    from kernelcup_harness.core.check import Place

FIRST = SampleName(input=0)
ALIKE = 2
"""Inputs of equal shapes whose right answers have to agree in form before the judge relies on that."""


class Forms:
    """Brings answers into the form of the reference's.

    Args:
        make_input: Returns a fresh copy of an input.
        check: Returns the checker's fault of an answer to an input.
        spec: Says which dtypes they may have, and whether they may use the memory of all inputs.
    """

    def __init__(
        self,
        task: TaskCode,
        make_input: Callable[[Place, SampleName], Any],
        check: Callable[[Any, Any], str],
        spec: JobSpec,
    ) -> None:
        self._task = task
        self._make_input = make_input
        self._check = check
        self._dtypes, self._aliasing = dtypes_of(spec.dtypes), spec.aliasing
        self._forms: dict[Any, Form] = {}
        self._ignored: dict[Any, set[int]] = {}
        self._alike: dict[Any, dict[SampleName, Form]] = {}

    def form(self, place: Place) -> Form:
        """Return the form of the answer to a case's first input."""
        if place.key not in self._forms:
            form = self._forms[place.key] = self._observed(place, FIRST)
            everything = form.in_place or self._aliasing
            private = frozenset() if everything else form.private - self._of_no_effect(place)
            self._forms[place.key] = replace(form, private=private)
        return self._forms[place.key]

    def writable(self, place: Place) -> frozenset[int]:
        """Return the tensors of an input that calls may write: what the reference writes, and what it never reads."""
        return self.form(place).written | self._of_no_effect(place)

    def fitted(self, place: Place, sample: SampleName, data: Any, output: Any) -> tuple[Any, str]:
        """Return an answer in the form of the reference's to this input. Raise ``Misfit``.

        Where the reference works in place, the judge's input is the answer, with the tensors that the reference
        writes as the call has left them. The text says what an author has to know if the call has changed nothing.
        """
        first, alike = self.form(place), self._alike.setdefault((*place.key, signature(data)), {})
        known = list(alike.values())
        agree = (
            len(known) >= ALIKE
            and not first.varies
            and all(form.described == known[0].described for form in known)
        )
        if not agree or structure_fault(known[0].value, output, dtypes=self._dtypes):
            expected = self._task.expected(self._make_input(place, sample))
            alike[sample] = Form.of(expected, in_place=first.in_place)
        else:
            expected = known[0].value
        value = fitted(expected, output, self._dtypes)
        return self._rebuilt(place, sample, data, value) if first.in_place else (value, "")

    def _rebuilt(self, place: Place, sample: SampleName, data: Any, output: Any) -> tuple[Any, str]:
        """Return the judge's input with what a call has written. Raise :class:`WritesInput`."""
        written, changed = self.form(place).written, differing(data, output)
        more = changed - written
        if more:
            # What is written may depend on the input.
            more -= self._observed(place, sample).written
        for number in sorted(more - self._of_no_effect(place)):
            raise WritesInput(f"tensor {number} of the input was changed, which the reference only reads")
        mine, left = list(aliasing.named_leaves(data, "data")), aliasing.leaves(output)
        parts = iter([own.clone() if n in more else left[n] for n, (_, own) in enumerate(mine)])
        found = iter(enumerate(others(output)))

        def other(own: Any) -> Any:
            at, given = next(found)
            return given if at in self.form(place).numbers else own

        names = ", ".join(mine[number][0] for number in sorted(written)[:5])
        text = f"this task works in place: the answer has to be written into {names}, which was not changed"
        rebuilt = values.with_tensors(data, lambda _own: next(parts), other, records.assembled)
        return rebuilt, "" if changed else text

    def _observed(self, place: Place, sample: SampleName) -> Form:
        """Return the form of the answer to an input, with what the reference did to that."""
        data, before = (self._make_input(place, sample) for _ in range(2))
        given = aliasing.leaves(data)
        began = time.monotonic()
        with uses.Uses(given) as used:
            output = self._task.expected(data)
        if devices.on_gpu():
            torch.cuda.synchronize()
        took_s = time.monotonic() - began
        after = output if self._task.in_place else given
        if len(aliasing.leaves(after)) != len(given):
            raise TaskFault("ref_kernel returns None (the task works in place), but adds or removes tensors")
        numbers = frozenset(range(len(given)))
        form = Form.of(
            output,
            in_place=self._task.in_place,
            written=frozenset(used.written | differing(before, after)),
            unread=numbers - used.read,
            # Operations on a sparse tensor pass its indices on.
            private=numbers - aliasing.shared(aliasing.leaves(output), given) - aliasing.indices(data),
            varies=used.varies,
            numbers=differing_numbers(before, output) if self._task.in_place else frozenset(),
        )
        form = replace(form, reference_s=took_s)
        self._alike.setdefault((*place.key, signature(before)), {})[sample] = form
        return form

    def _of_no_effect(self, place: Place) -> set[int]:
        """Return the tensors of an input whose contents change nothing, for example the place for an output."""
        if place.key not in self._ignored:
            make = partial(self._make_input, place, FIRST)
            unread = self._forms[place.key].unread
            self._ignored[place.key] = {n for n in unread if self._task.ignores(make, n, check=self._check)}
        return self._ignored[place.key]


def signature(data: Any) -> str:
    """Return what the form of an answer may follow from but elements: structure, shapes and whole numbers."""
    encoder = values.Encoder()
    plain = values.with_tensors(data, aliasing.DETACH, lambda leaf: 0.0 if isinstance(leaf, float) else leaf)
    return repr((encoder.tree(plain, "input"), encoder.table()))


def others(value: Any) -> list[Any]:
    """Return the leaves of a value that are no tensors, in the order of its tree."""
    found: list[Any] = []
    values.with_tensors(value, lambda tensor: tensor, found.append, lambda _kind, fields: fields)
    return found


def differing_numbers(one: Any, other: Any) -> frozenset[int]:
    """Return the leaves, by number among those that are no tensors, in which two values of one form differ."""
    return frozenset(
        n for n, pair in enumerate(zip(others(one), others(other), strict=True)) if pair[0] != pair[1]
    )


def differing(one: Any, other: Any) -> set[int]:
    """Return the tensors in which two values of one form differ, in any bit."""
    pairs = zip(*(map(values.contiguous, aliasing.leaves(each)) for each in (one, other)), strict=True)
    return {n for n, pair in enumerate(pairs) if not torch.equal(*map(values.bytes_of, pair))}
