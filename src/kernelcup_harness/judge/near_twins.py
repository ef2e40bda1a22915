"""Inputs that differ from an earlier one in one element of each tensor that the reference reads.

A submission that recognises an input by a few of its elements, or by its address, answers a near-twin with the
other's answer; one that relies on repeated inputs is wrong on it. Only elements whose change leaves a valid input
are changed, see :mod:`kernelcup_harness.judge.changes`, and only if the task's own reference passes its own checker on
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import torch

from kernelcup_harness.judge import changes, finiteness
from kernelcup_harness.judge.task import TaskCode, TaskFault
from kernelcup_harness.judge.uses import Uses
from kernelcup_harness.wire import aliasing, values

MOST_TRIED = 8
"""Most tensors that are tried one by one; each costs calls of the reference."""

Chances = Callable[[int], random.Random]
"""Returns the random numbers for a tensor, given its number; other tensors do not influence them."""


def change(value: Any, chances: Chances, numbers: Collection[int] | None = None) -> set[int]:
    """Change one element in each named tensor, or in every tensor that allows it if ``numbers`` is None.

    Return the numbers of the changed tensors. A tensor that occurs twice is changed once.
    """
    changed: set[int] = set()
    begun: set[int] = set()
    for number, tensor in enumerate(aliasing.leaves(value)):
        begin = aliasing.ADDRESS(tensor)
        wanted = numbers is None or number in numbers
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
        return frozenset(alone if self._masters(alone) else ())

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
        if not finiteness.is_finite(answer) and finiteness.is_finite(task.expected(plain())):
            return False
        return not task.check(twin(), answer)
    except TaskFault:
        return False


def prints(tensor: torch.Tensor) -> tuple[torch.dtype, int]:
    """Return a fingerprint: equal for equal elements in any order, zeros ignored."""
    return tensor.dtype, int(values.bytes_of(tensor).sum(dtype=torch.int64)) if tensor.numel() else 0
