"""Inputs that differ from an earlier one in one element of a tensor that the reference reads.

A submission that recognises an input by a few of its elements, or by its address, answers a near-twin with the
other's answer; one that relies on repeated inputs is wrong on it. Only elements whose change leaves a valid input
are changed, see :mod:`kernelcup_harness.doubt.changes`, and only if the task's own reference passes its own checker on
it. Tensors of integers, if an input has several, may have to agree, as offsets and lengths do: a wrong answer to a twin
of these does not count. Twins of the others come first, and all of them have to be answered rightly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core import ranges
from kernelcup_harness.core.check import Place
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.core.uses import Uses
from kernelcup_harness.doubt import changes
from kernelcup_harness.protocol import SampleName, StageName
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.wire import aliasing, values

MOST_TWINS = 8
"""Most twins of an input that count, and that do not. Of more tensors, several change in one twin."""
INDICES = (torch.int32, torch.int64)
"""Dtypes of tensors that may say where others begin and end; narrower integers are data."""
MOST_TRIED = 8
"""Most tensors that are tried one by one; each costs calls of the reference."""

Make = Callable[[int], Any]
"""Makes the input with a number."""
Chances = Callable[[int], random.Random]
"""Returns the random numbers for a tensor, given its number; other tensors do not influence them."""


class NearTwins:
    """The near-twins of a job's inputs.

    Args:
        task: The task.
        secret: The changes are drawn from it.
    """

    def __init__(self, task: TaskCode, secret: bytes) -> None:
        self._task = task
        self._secret = secret
        self._parts: dict[tuple[StageName, int], dict[frozenset[int], bool]] = {}

    def twins(self, place: Place, make: Make) -> list[bool]:
        """Return for each twin of an input whether a wrong answer to it counts, those that count first."""
        return list(self._chosen(place, make).values())

    def change(self, place: Place, sample: SampleName, data: Any, make: Make) -> None:
        """Make the near-twin of an input in place."""
        change(data, self._chances(place, sample.input), list(self._chosen(place, make))[sample.part])

    def is_input(self, place: Place, sample: SampleName, make: Make) -> bool:
        """Return whether the reference itself passes on a near-twin."""

        def twin() -> Any:
            data = make(sample.input)
            self.change(place, sample, data, make)
            return data

        return masters(self._task, twin, partial(make, sample.input))

    def _chosen(self, place: Place, make: Make) -> dict[frozenset[int], bool]:
        """Return the tensors that each twin changes: chosen once, by the first input."""
        if place.key not in self._parts:
            self._parts[place.key] = {}
            if self._task.has_reference:
                with suppress(TaskFault):
                    numbers = Choice(self._task, partial(make, 0), self._chances(place, 0)).numbers()
                    self._parts[place.key] = parts(numbers, make(0), make(1))
        return self._parts[place.key]

    def _chances(self, place: Place, number: int) -> Chances:
        return lambda leaf: random.Random(derive_seed(self._secret, "twin", *place.key, number, leaf))


def parts(numbers: frozenset[int], first: Any, second: Any) -> dict[frozenset[int], bool]:
    """Return the tensors that each twin changes, of those that can be, and whether wrong answers count.

    All of them count if no other tensor differs between two inputs: an answer may be kept by what all inputs share.
    """
    pairs = list(zip(aliasing.leaves(first), aliasing.leaves(second), strict=False))
    indices = {number for number, (each, _) in enumerate(pairs) if each.dtype in INDICES}
    drawn = {number for number, pair in enumerate(pairs) if not torch.equal(*map(changes.workable, pair))}
    others = sorted(numbers - indices if len(indices) > 1 and (numbers - indices) & drawn else numbers)
    return {
        frozenset(group[at::MOST_TWINS]): group is others
        for group in (others, sorted(numbers.difference(others)))
        for at in range(min(MOST_TWINS, len(group)))
    }


def change(value: Any, chances: Chances, numbers: Collection[int] | None = None) -> set[int]:
    """Change one element in each named tensor, or in every tensor that allows it if ``numbers`` is None.

    Return the numbers of the changed tensors. A tensor that occurs twice is changed once.
    """
    changed: set[int] = set()
    begun: set[int] = set()
    indices = aliasing.indices(value)  # which might occur twice then, or out of order
    for number, tensor in enumerate(aliasing.leaves(value)):
        begin = aliasing.ADDRESS(tensor)
        wanted = number not in indices and (numbers is None or number in numbers)
        if wanted and begin not in begun and changes.change_element(tensor, chances(number)):
            changed.add(number)
        begun.add(begin)
    return changed


class Choice:
    """Chooses the tensors of a case's inputs in which twins differ.

    Args:
        task: A task with a reference.
        generate: Makes the same input each time.
        chances: Random numbers for changes of that input.
    """

    def __init__(self, task: TaskCode, generate: Callable[[], Any], chances: Chances) -> None:
        self._task = task
        self._generate = generate
        self._chances = chances

    def numbers(self) -> frozenset[int]:
        """Return the tensors to change, none if changes do not give an input of the task. Raise ``TaskFault``."""
        able = change(self._generate(), self._chances)
        sure = able & self._only_read() if able else set()
        doubtful = sorted(able - sure)
        read = sure | {number for number in doubtful[:MOST_TRIED] if self._matters(number)}
        read -= self._copies(read, set(doubtful) - read)
        if not read or self._masters(read):
            return frozenset(read)
        alone = {number for number in sorted(read)[:MOST_TRIED] if self._masters({number})}
        return frozenset(alone)

    def _only_read(self) -> set[int]:
        """Return the tensors that the reference reads and does not write, as far as torch's operations reveal."""
        data = self._generate()
        uses = Uses(aliasing.leaves(data))
        try:
            with uses:
                self._task.expected(data)
        except TaskFault:
            # Some code does not run under the mode; unknown tensors are tried one by one.
            return set()
        return uses.read - uses.written

    def _matters(self, number: int) -> bool:
        """Return whether changing a tensor changes the reference's answer."""
        answer = self._task.expected(self._twin({number}))
        return bool(self._task.check(self._generate(), answer))

    def _copies(self, read: set[int], unread: set[int]) -> set[int]:
        """Return tensors of which the input also has a copy, possibly reordered, that the reference ignores.

        Submissions may read the copy, which would no longer agree with a changed tensor.
        """
        if not unread:
            return set()
        leaves = aliasing.leaves(self._generate())
        sums = {prints(leaves[number]) for number in unread if not changes.all_equal(leaves[number])}
        return {number for number in read if prints(leaves[number]) in sums}

    def _masters(self, numbers: Collection[int]) -> bool:
        return bool(numbers) and masters(self._task, lambda: self._twin(numbers), self._generate)

    def _twin(self, numbers: Collection[int]) -> Any:
        data = self._generate()
        change(data, self._chances, numbers)
        return data


def masters(task: TaskCode, twin: Callable[[], Any], plain: Callable[[], Any]) -> bool:
    """Return whether the reference passes the checker on a twin, and is finite there if it is on the input."""
    try:
        answer = task.expected(twin())
        if not is_finite(answer) and is_finite(task.expected(plain())):
            return False
        return not task.check(twin(), answer)
    except TaskFault:
        return False


def is_finite(value: Any) -> bool:
    """Return whether every number of an answer is finite."""
    return all(map(math.isfinite, ranges.all_ends(value)))


def prints(tensor: torch.Tensor) -> tuple[torch.dtype, int]:
    """Return a fingerprint: equal for equal elements in any order, zeros ignored."""
    return tensor.dtype, int(values.bytes_of(tensor).sum(dtype=torch.int64)) if tensor.numel() else 0
