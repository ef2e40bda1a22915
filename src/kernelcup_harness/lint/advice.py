"""Advice to a task's author about an accepted null."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.explain import differences
from kernelcup_harness.lint.null_submissions import leaves
from kernelcup_harness.protocol.lint import Null

# Factors of the reference's own rounding for a proposed tolerance, if the geometric mean of that and the
# null's error does not refuse the null: the widest tolerance that refuses it is proposed.
HEADROOM = (64.0, 16.0, 4.0)

# Advice for answers that are not only accepted but right.
RIGHT = {
    Null.COPY_OF_INPUT: "the input is the right answer: draw inputs that have to be changed, or waive "
    "this null with the reason",
    Null.PREVIOUS_ANSWER: "the answer does not depend on the input: draw the input from the seed",
    Null.OTHER_SEED: "the answer does not depend on the input: draw the input from the seed",
}
CONSTANT = "the right answer is the same constant each time: draw inputs for which it is not"
TOO_CLOSE = "the answers to two inputs differ by less than the tolerance; "
SAID = {
    Null.OTHER_FORM: "compare lengths and dtypes, too",
    **dict.fromkeys(
        (Null.NAN, Null.INFINITE, Null.HALF_NAN),
        "every comparison with NaN is false: ask whether all errors are within the tolerance, not whether one is above",
    ),
    Null.NARROWER_DTYPE: "the tolerance follows the answer's dtype: compare in the reference's, or list in `dtypes` "
    "what is meant",
}
FAR_OFF = "most of its elements are far off: compare each, in float64 or int64, where nothing wraps or cancels out; "
POLICY = "if this precision is not meant to be allowed: "
EVERYWHERE = "the checker does not check every element, or not their values"


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """The errors of a null and of an honest answer, for one leaf."""

    expected: torch.Tensor
    null: torch.Tensor
    honest: torch.Tensor
    epsilon: float

    def advice(self) -> str:
        """Return a tolerance that refuses the null, or that there is none."""
        size = finite_max(self.expected.abs())
        share = finite_max(self.honest / self.expected.abs().clamp(min=max(size * 0.01, 1e-300)))
        away, off = finite_max(self.honest), finite_max(self.null)
        least = max(away, self.epsilon * size)
        told = f"rounding alone is off by about {least:.2g}, this answer by {off:.2g}"
        proposed = [(HEADROOM[0] * self.epsilon, math.sqrt(least * off))]
        proposed += [
            (factor * max(share, self.epsilon), factor * max(away, least * 0.01)) for factor in HEADROOM
        ]
        for relative, absolute in proposed:
            bound = nice(absolute) + nice(relative) * self.expected.abs()
            if bool((~(self.null <= bound)).any()):
                return f"{told}; rtol={nice(relative):g}, atol={nice(absolute):g} would refuse it"
        return f"{told}: no tolerance separates the two, so draw other inputs"


def advice(
    null: Null,
    expected: Any,
    answer: Any,
    *,
    precise: Any,
    tolerance: tuple[float, float] | None,
    right: bool,
) -> str:
    """Return a suggestion for a null that was accepted.

    ``precise`` is the right answer computed in a higher precision, None if there is none;
    ``tolerance`` is the checker's own.
    """
    if right:
        return RIGHT.get(null, CONSTANT)
    if null in SAID:
        return SAID[null]
    if tolerance is not None and differences.first_mismatch(expected, answer, tolerance) is not None:
        return f"{EVERYWHERE}: this answer is outside its own rtol={tolerance[0]:g}, atol={tolerance[1]:g}"
    errors = worst_leaf(expected, answer, precise)
    if errors is None:
        return "integers can be compared for equality, every one of them"
    before = {
        **dict.fromkeys((Null.PREVIOUS_ANSWER, Null.OTHER_SEED), TOO_CLOSE),
        Null.LOWER_PRECISION: POLICY,
        Null.WITHIN_RANGE: FAR_OFF,
    }
    return before.get(null, "") + errors.advice()


def worst_leaf(expected: Any, answer: Any, precise: Any) -> Errors | None:
    """Return the errors of the floating-point leaf that is furthest off, None if none is off."""
    rights, wrongs = leaves(expected, "output"), dict(leaves(answer, "output"))
    better = dict(leaves(precise, "output"))
    found = [
        errors_of(right, wrongs[path], better.get(path, right))
        for path, right in rights
        if right.is_floating_point() and path in wrongs
    ]
    off = [each for each in found if bool((each.null != 0).any())]
    return max(off, key=lambda each: finite_max(each.null), default=None)


def errors_of(right: torch.Tensor, wrong: torch.Tensor, better: torch.Tensor) -> Errors:
    """Measure one leaf, on the processor and in float64."""
    expected = differences.widened(right)
    return Errors(
        expected=expected,
        null=(differences.widened(wrong) - expected).abs(),
        honest=(differences.widened(better) - expected).abs(),
        epsilon=torch.finfo(right.dtype).eps,
    )


def finite_max(values: torch.Tensor) -> float:
    """Return the largest finite element, 0 without one."""
    finite = values[torch.isfinite(values)]
    return float(finite.max()) if finite.numel() else 0.0


def nice(value: float) -> float:
    """Round to one digit, as people write tolerances."""
    if not value > 0:
        return 0.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return round(value / power) * power
