"""Describes how an output differs from the expected one: structure first, then element by element.

This explains a verdict; the task's own checker makes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from kernelcup_harness.protocol import Difference, Mismatch
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


def structure_fault(expected: Any, actual: Any, where: str = "output", *, dtype: bool = True) -> str:
    """Return how ``actual`` differs in type, shape, device or ``dtype``, empty if it does not."""
    if isinstance(expected, torch.Tensor):
        return tensor_fault(expected, actual, where, dtype=dtype)
    if type(expected) in (list, tuple):
        return sequence_fault(expected, actual, where, dtype=dtype)
    if type(expected) is dict:
        return mapping_fault(expected, actual, where, dtype=dtype)
    fields = wire.record_fields(expected)
    if fields is not None:
        if type(actual).__qualname__ != type(expected).__qualname__:
            return f"{where} is {name_of(actual)}; expected {name_of(expected)}"
        missing = next((name for name in fields if not hasattr(actual, name)), None)
        if missing is not None:
            return f"{where} has no {missing}"
        faults = (
            structure_fault(getattr(expected, name), getattr(actual, name), f"{where}.{name}", dtype=dtype)
            for name in fields
        )
        return next(filter(None, faults), "")
    if type(actual) is not type(expected) and not (
        wire.is_finite_number(expected) and isinstance(actual, (int, float)) and not isinstance(actual, bool)
    ):
        return f"{where} is {name_of(actual)}; expected {name_of(expected)}"
    return ""


def tensor_fault(expected: torch.Tensor, actual: Any, where: str, *, dtype: bool) -> str:
    """Compare a tensor's shape, dtype and device, without reading its elements."""
    if not isinstance(actual, torch.Tensor):
        return f"{where} is {name_of(actual)}; expected a tensor"
    if actual.shape != expected.shape:
        return f"{where} has shape {list(actual.shape)}; expected {list(expected.shape)}"
    if dtype and actual.dtype != expected.dtype:
        return f"{where} has dtype {actual.dtype}; expected {expected.dtype}"
    if actual.device.type != expected.device.type:
        return f"{where} is on {actual.device.type}; expected on {expected.device.type}"
    return ""


def sequence_fault(expected: Any, actual: Any, where: str, *, dtype: bool) -> str:
    """Compare lists and tuples: their kind and length, then their items."""
    if type(actual) is not type(expected):
        return f"{where} is {name_of(actual)}; expected {name_of(expected)}"
    if len(actual) != len(expected):
        return f"{where} has {len(actual)} items; expected {len(expected)}"
    faults = (
        structure_fault(e, a, f"{where}[{i}]", dtype=dtype)
        for i, (e, a) in enumerate(zip(expected, actual, strict=True))
    )
    return next(filter(None, faults), "")


def mapping_fault(expected: dict[Any, Any], actual: Any, where: str, *, dtype: bool) -> str:
    """Compare dicts: their keys, then their values."""
    if type(actual) is not dict:
        return f"{where} is {name_of(actual)}; expected a dict"
    if actual.keys() != expected.keys():
        return f"{where} has keys {key_names(actual)}; expected {key_names(expected)}"
    faults = (
        structure_fault(expected[key], actual[key], f"{where}[{key!r}]", dtype=dtype) for key in expected
    )
    return next(filter(None, faults), "")


def key_names(mapping: dict[Any, Any]) -> list[str]:
    """Return the first keys of a dict, each cut to what a person reads."""
    return sorted(str(key)[:40] for key in mapping)[:10]


def name_of(value: Any) -> str:
    """Name the type of a value for a person."""
    return "None" if value is None else f"a {type(value).__name__}"


def first_mismatch(
    expected: Any, actual: Any, tolerance: tuple[float, float] | None, where: str = "output"
) -> Mismatch | None:
    """Return the first leaf that differs, or None. Both values have the same structure.

    ``tolerance`` is ``(relative, absolute)`` as the task's checker names it, None for the default of
    the dtype.
    """
    found = (leaf_mismatch(e, a, tolerance, path) for path, e, a in leaf_pairs(expected, actual, where))
    return next((each for each in found if each is not None), None)


def leaf_pairs(expected: Any, actual: Any, where: str = "output") -> Iterator[tuple[str, Any, Any]]:
    """Yield each leaf of two values of the same structure, with its path."""
    if type(expected) in (list, tuple):
        for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from leaf_pairs(left, right, f"{where}[{i}]")
    elif type(expected) is dict:
        for key in expected:
            yield from leaf_pairs(expected[key], actual[key], f"{where}[{key!r}]")
    elif (fields := wire.record_fields(expected)) is not None:
        for name in fields:
            yield from leaf_pairs(getattr(expected, name), getattr(actual, name), f"{where}.{name}")
    else:
        yield where, expected, actual


def leaf_mismatch(
    expected: Any, actual: Any, tolerance: tuple[float, float] | None, where: str
) -> Mismatch | None:
    """Compare two leaves: tensors element by element, anything else as a whole."""
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
    if not (wire.is_finite_number(expected) and wire.is_finite_number(actual)):
        return None
    try:
        return abs(float(expected) - float(actual))
    except OverflowError:
        return None


def tensor_mismatch(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: tuple[float, float] | None, where: str
) -> Mismatch | None:
    """Compare two tensors of equal shape element by element, on the processor."""
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
