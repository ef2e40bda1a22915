"""Finds out whether large seeds make a task's inputs poorer, and the largest bound below which they do not.

A generator that adds its seed to float32 noise makes a constant input for a 63-bit seed; others raise an
exception from 2^32 on. Inputs of large seeds are compared with those of the case's own seed: how many
different values a tensor has, how far they differ for their size, and whether they are finite.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.lint import null_submissions
from kernelcup_harness.protocol import FEWEST_SEEDS
from kernelcup_harness.protocol.seeds import MOST_SEEDS, derive_seed

BOUNDS = (MOST_SEEDS, 1 << 62, 1 << 53, 1 << 32, 1 << 31, 1 << 24, FEWEST_SEEDS)
"""Tried from the largest to the smallest."""
TRIES = 3
"""Seeds that are tried for each bound, and for comparison."""
LOOKED_AT = 1 << 16
"""Most elements of a tensor that are examined."""
SCATTER = 2654435761
"""A prime, so that its multiples are spread over a tensor with rows of any length."""
FEWER_VALUES = 4
SMALLER_SPREAD = 16
"""An input is poorer from these factors on."""
FEWER_FINITE = 0.01

Make = Callable[[int], Any]
"""Makes the input of a seed. Raises ``TaskFault``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Richness:
    """Statistics of a tensor, independent of its purpose."""

    values: int
    """Number of distinct values among the examined ones."""
    spread: float
    """Standard deviation over the largest magnitude; 0 for integers."""
    finite: float
    mark: bytes
    """Equal for equal tensors."""


Measured = dict[str, Richness]
"""Statistics of the tensors of an input, by path."""


def richness(leaf: torch.Tensor) -> Richness:
    """Measure a tensor."""
    found = some_elements(leaf.detach())
    mark = hashlib.sha256(str(tuple(leaf.shape)).encode())
    mark.update(found.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    if not found.is_floating_point():
        return Richness(values=different(found), spread=0.0, finite=1.0, mark=mark.digest())
    finite = found[torch.isfinite(found)]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    spread = float(finite.std(correction=0)) / largest if largest else 0.0
    share = finite.numel() / max(1, found.numel())
    return Richness(values=different(finite), spread=spread, finite=share, mark=mark.digest())


def some_elements(leaf: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements, or a spread sample of a large one, as flat float64 or int64."""
    flat = (torch.view_as_real(leaf) if leaf.is_complex() else leaf).flatten()
    if flat.numel() > LOOKED_AT:
        places = torch.arange(LOOKED_AT, device=flat.device) * SCATTER % flat.numel()
        kind = flat.dtype
        # Indexing often does not support formats of one byte.
        flat = flat.view(torch.uint8)[places].view(kind) if kind.itemsize == 1 else flat[places]
    return flat.to(torch.float64 if flat.is_floating_point() else torch.int64)


def different(values: torch.Tensor) -> int:
    """Count different values."""
    return int(torch.unique(values).numel())


def measure(make: Make, seed: int) -> Measured:
    """Make an input and measure all its tensors. Raise ``TaskFault``."""
    data = make(seed)
    try:
        return {path: richness(leaf) for path, leaf in null_submissions.leaves(data, "input")}
    except (OverflowError, RuntimeError) as error:  # for example an integer of more than 64 bits
        raise TaskFault(f"the input cannot be examined: {error}") from error


def loss(known: Sequence[Measured], tried: Measured) -> str:
    """Return the deficit of an input compared with the known ones, empty if there is none."""
    for path, found in tried.items():
        like = [each[path] for each in known if path in each]
        if not like:
            continue
        values, spread = min(each.values for each in like), min(each.spread for each in like)
        if found.finite < min(each.finite for each in like) - FEWER_FINITE:
            return f"{path}: {1 - found.finite:.0%} of the values are not finite"
        if found.values * FEWER_VALUES < values:
            return f"{path}: {found.values} different values instead of {values}"
        if found.spread * SMALLER_SPREAD < spread:
            return f"{path}: values differ by {found.spread:.1e} of their size instead of {spread:.1e}"
    return ""


def all_alike(measured: Sequence[Measured]) -> bool:
    """Return whether the inputs of different seeds are all equal."""
    marks = [[each[path].mark for path in sorted(each)] for each in measured]
    return len(marks) > 1 and all(each == marks[0] for each in marks)


def is_changed(one: Measured, other: Measured) -> bool:
    """Return whether some tensor of two inputs differs, or they have none."""
    return not one or any(one[path].mark != other[path].mark for path in one.keys() & other.keys())


class Trial:
    """Tries seeds on case after case; the bound only becomes smaller.

    Args:
        below: The task's own bound, None for 63 bits.
    """

    def __init__(self, below: int | None) -> None:
        self._first = MOST_SEEDS if below is None else below
        self._below = self._first
        self.why = ""
        """The damage to inputs by seeds up to the last rejected bound."""
        self.poor = False
        """Whether even the smallest bound makes poorer inputs."""

    @property
    def proposal(self) -> int | None:
        """The bound to use; None to leave it unchanged."""
        return self._below if self._below < self._first else None

    def case(self, name: str, given: int | None, make: Make) -> None:
        """Try one case. Raise ``TaskFault`` if it has no input even for its own seed."""
        first = 1 if given is None else given
        known = [measure(make, first + step) for step in range(TRIES)]
        bounds = [self._below, *(bound for bound in BOUNDS if bound < self._below)]
        for number, bound in enumerate(bounds):
            why = self._fault(name, bound, known, make)
            if not why:
                self._below = bound
                return
            if number == 0:
                self.why = f"{name}: seeds up to {power(bound)}: {why}"
        self._below, self.poor = min(self._below, FEWEST_SEEDS), True

    def _fault(self, name: str, bound: int, known: Sequence[Measured], make: Make) -> str:
        """Return the fault of inputs whose seeds are in the upper half below a bound, empty if there is none."""
        tried = []
        for number in range(TRIES):
            half = bound // 2
            seed = half + derive_seed(b"trial", name, bound, number, below=half)
            try:
                tried.append(measure(make, seed))
            except TaskFault as fault:
                return f"seed {seed}: {str(fault).splitlines()[-1]}"
            if why := loss(known, tried[-1]):
                return f"seed {seed}: {why}"
        if all_alike(tried) and not all_alike(known):
            return "different seeds make the same input"
        return ""


def power(bound: int) -> str:
    """Write a power of two as people do."""
    return f"2^{bound.bit_length() - 1}" if bound & (bound - 1) == 0 else str(bound)
