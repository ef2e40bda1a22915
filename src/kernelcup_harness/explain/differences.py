"""Describes how an output differs from the expected one, element by element."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch

from kernelcup_harness.protocol import Difference, Mismatch
from kernelcup_harness.wire import aliasing
from kernelcup_harness.wire import values as wire

SHOWN = 5
MOST_TILES = (24, 48)
# Tolerances for counting wrong elements if the task's checker names none.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}


def first_mismatch(
    expected: Any, actual: Any, tolerance: tuple[float, float] | None, where: str = "output"
) -> Mismatch | None:
    """Return the first leaf that differs, or None. Both values have the same structure.

    ``tolerance`` is ``(relative, absolute)`` as the task's checker names it, None for the default of
    the dtype.
    """
    found = (
        leaf_mismatch(e, a, tolerance, path) for path, e, a in aliasing.leaf_pairs(expected, actual, where)
    )
    return next((each for each in found if each is not None), None)


def leaf_mismatch(
    expected: Any, actual: Any, tolerance: tuple[float, float] | None, where: str
) -> Mismatch | None:
    """Compare two leaves: tensors element by element, anything else as a whole."""
    if isinstance(expected, torch.Tensor) and expected.shape != actual.shape:
        # Parts of sparse tensors.
        expected, actual = (f"{len(each)} elements stored" for each in (expected, actual))
    if isinstance(expected, torch.Tensor):
        return tensor_mismatch(expected, actual, tolerance, where)
    return value_mismatch(expected, actual, where)


def value_mismatch(expected: Any, actual: Any, where: str) -> Mismatch | None:
    """Compare two values that are not tensors."""
    if expected == actual or (is_nan(expected) and is_nan(actual)):
        return None
    difference = Difference(position=[], expected=repr(expected)[:100], actual=repr(actual)[:100])
    error = distance(expected, actual)
    return Mismatch(
        where=where,
        wrong=1,
        total=1,
        nan=int(is_nan(actual)),
        infinite=int(isinstance(actual, float) and math.isinf(actual)),
        largest_error=error,
        first=[difference],
        rule="not equal",
    )


def is_nan(value: Any) -> bool:
    """Return whether a value is a float NaN."""
    return isinstance(value, float) and math.isnan(value)


def distance(expected: Any, actual: Any) -> float | None:
    """Return the absolute difference of two finite numbers, None for anything else."""
    if not (is_finite_number(expected) and is_finite_number(actual)):
        return None
    try:
        return abs(float(expected) - float(actual))
    except OverflowError:
        return None


def is_finite_number(value: object) -> bool:
    """Return whether ``value`` is an int or a finite float."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, float) and math.isfinite(value)


def tensor_mismatch(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: tuple[float, float] | None, where: str
) -> Mismatch | None:
    """Compare two tensors of equal shape element by element, on the processor."""
    if wire.is_opaque(expected.dtype) and wire.is_opaque(actual.dtype):
        expected, actual = expected.view(torch.uint8), actual.view(torch.uint8)
    left, right = in_one_dtype(widened(expected), widened(actual))
    coarser = max(expected.dtype, actual.dtype, key=lambda each: TOLERANCES.get(each, (0.0, 0.0)))
    relative, absolute = tolerance or TOLERANCES.get(coarser, (0.0, 0.0))
    is_number = left.is_floating_point() or left.is_complex()
    exact = not is_number or (relative == 0 and absolute == 0)
    wrong = not_close(left, right, relative, absolute) if is_number else differing(left, right)
    count = int(wrong.sum())
    if count == 0:
        return None
    rule = "not equal" if exact else f"|actual - expected| > {absolute:g} + {relative:g} * |expected|"
    return Mismatch(
        where=where,
        wrong=count,
        total=wrong.numel(),
        nan=int((wrong & right.isnan()).sum()) if is_number else 0,
        infinite=int((wrong & right.isinf()).sum()) if is_number else 0,
        largest_error=largest_error(left, right, wrong),
        first=first_differences(wrong, expected, actual),
        rule=rule,
        shape=list(wrong.shape),
        tiles=tiles_of(wrong),
    )


def tiles_of(wrong: torch.Tensor) -> list[list[int]]:
    """Count the marked elements of each part of a tensor, at most ``MOST_TILES`` of them."""
    high, wide = MOST_TILES
    columns = wrong.shape[-1] if wrong.dim() else 1
    rows = wrong.numel() // columns
    if rows == 1:
        parts = [int(part.count_nonzero()) for part in cut(wrong.reshape(-1), high * wide)]
        across = -(-len(parts) // -(-len(parts) // wide))
        return [parts[at : at + across] for at in range(0, len(parts), across)]
    bands = [band.count_nonzero(dim=0) for band in cut(wrong.reshape(rows, columns), high)]
    return [[int(part.sum()) for part in cut(band, wide)] for band in bands]


def cut(values: torch.Tensor, most: int) -> list[torch.Tensor]:
    """Cut a tensor along its first dimension into at most ``most`` parts of nearly equal size."""
    count = len(values)
    parts = min(count, most)
    ends = [count * at // parts for at in range(parts + 1)]
    return [values[begin:end] for begin, end in pairwise(ends)]


def widened(value: torch.Tensor) -> torch.Tensor:
    """Return a plain copy on the processor in a dtype that can be subtracted."""
    value = value.detach().to("cpu")
    if value.dtype is torch.bool or value.is_complex():
        return value
    if value.is_floating_point():
        return value.to(torch.float64)
    return value if value.dtype is torch.uint64 else value.to(torch.int64)


def differing(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Mark elements that are not equal; PyTorch cannot compare unsigned 64-bit numbers."""
    if left.dtype is torch.uint64:
        return left.view(torch.int64).ne(right.view(torch.int64))
    return left.ne(right)


def not_close(left: torch.Tensor, right: torch.Tensor, relative: float, absolute: float) -> torch.Tensor:
    """Mark elements that differ; NaN equals NaN, and infinities must agree."""
    close = torch.isclose(right, left, rtol=relative, atol=absolute, equal_nan=True)
    return ~close


def in_one_dtype(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two tensors in a dtype that holds the elements of both."""
    if left.dtype is right.dtype:
        return left, right
    both = torch.complex128 if left.is_complex() or right.is_complex() else torch.float64
    return left.to(both), right.to(both)


def largest_error(left: torch.Tensor, right: torch.Tensor, wrong: torch.Tensor) -> float | None:
    """Return the largest absolute difference over the elements that are finite on both sides.

    None if no wrong element is among them: the errors of right elements are not shown.
    """
    if not (left.is_floating_point() or left.is_complex()):
        # Integers are subtracted as floats, because their own difference may overflow. Integers that are
        # different but equal as floats differ by at least one.
        gap = float((right.to(torch.float64) - left.to(torch.float64)).abs().max())
        return max(gap, 1.0)
    error = (right - left).abs().to(torch.float64)
    finite = torch.isfinite(error)
    return float(error[finite].max()) if bool((finite & wrong).any()) else None


def first_differences(wrong: torch.Tensor, expected: torch.Tensor, actual: torch.Tensor) -> list[Difference]:
    """Return the first wrong positions in row-major order."""
    flat = torch.nonzero(wrong.reshape(-1))[:SHOWN, 0].tolist()
    left, right = expected.detach().reshape(-1), actual.detach().reshape(-1)
    return [
        Difference(
            position=position_of(index, list(wrong.shape)),
            expected=shown(left[index]),
            actual=shown(right[index]),
        )
        for index in flat
    ]


def position_of(index: int, shape: list[int]) -> list[int]:
    """Return the coordinates of a row-major index."""
    position: list[int] = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        position.append(rest)
    return position[::-1]


def shown(element: torch.Tensor) -> str:
    """Return one element as text, with enough digits for its dtype."""
    if element.is_floating_point():
        return f"{float(element):.9g}"
    return str(element.item())
