"""Say how an output differs from the expected one: structure first, then element by element.

This explains a verdict; the task's own checker makes it.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from kernelcup_harness import wire
from kernelcup_harness.protocol import Difference, Mismatch

SHOWN = 5
# Tolerances by which differing elements are counted where the task's checker names none.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}


def structure_fault(expected: Any, actual: Any, where: str = "output") -> str:
    """Return how ``actual`` differs in type, shape, dtype or device, empty if it does not."""
    if isinstance(expected, torch.Tensor):
        return tensor_fault(expected, actual, where)
    if type(expected) in (list, tuple):
        return sequence_fault(expected, actual, where)
    if type(expected) is dict:
        return mapping_fault(expected, actual, where)
    fields = wire.record_fields(expected)
    if fields is not None:
        if type(actual).__qualname__ != type(expected).__qualname__:
            return f"{where} is {name_of(actual)}; expected {name_of(expected)}"
        missing = next((name for name in fields if not hasattr(actual, name)), None)
        if missing is not None:
            return f"{where} has no {missing}"
        faults = (
            structure_fault(getattr(expected, name), getattr(actual, name), f"{where}.{name}")
            for name in fields
        )
        return next(filter(None, faults), "")
    if type(actual) is not type(expected) and not (
        wire.is_finite_number(expected) and isinstance(actual, (int, float)) and not isinstance(actual, bool)
    ):
        return f"{where} is {name_of(actual)}; expected {name_of(expected)}"
    return ""


def tensor_fault(expected: torch.Tensor, actual: Any, where: str) -> str:
    """Compare what can be said of a tensor without reading it."""
    if not isinstance(actual, torch.Tensor):
        return f"{where} is {name_of(actual)}; expected a tensor"
    for what in ("shape", "dtype"):
        if getattr(actual, what) != getattr(expected, what):
            shown = [
                list(v) if what == "shape" else v for v in (getattr(actual, what), getattr(expected, what))
            ]
            return f"{where} has {what} {shown[0]}; expected {shown[1]}"
    if actual.device.type != expected.device.type:
        return f"{where} is on {actual.device.type}; expected on {expected.device.type}"
    return ""


def sequence_fault(expected: Any, actual: Any, where: str) -> str:
    """Compare lists and tuples: their kind and length, then their items."""
    if type(actual) is not type(expected):
        return f"{where} is {name_of(actual)}; expected {name_of(expected)}"
    if len(actual) != len(expected):
        return f"{where} has {len(actual)} items; expected {len(expected)}"
    faults = (
        structure_fault(e, a, f"{where}[{i}]") for i, (e, a) in enumerate(zip(expected, actual, strict=True))
    )
    return next(filter(None, faults), "")


def mapping_fault(expected: dict[Any, Any], actual: Any, where: str) -> str:
    """Compare dicts: their keys, then their values."""
    if type(actual) is not dict:
        return f"{where} is {name_of(actual)}; expected a dict"
    if actual.keys() != expected.keys():
        return f"{where} has keys {key_names(actual)}; expected {key_names(expected)}"
    faults = (structure_fault(expected[key], actual[key], f"{where}[{key!r}]") for key in expected)
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
    if isinstance(expected, torch.Tensor):
        return tensor_mismatch(expected, actual, tolerance, where)
    if type(expected) in (list, tuple):
        pairs = [(e, a, f"{where}[{i}]") for i, (e, a) in enumerate(zip(expected, actual, strict=True))]
    elif type(expected) is dict:
        pairs = [(expected[key], actual[key], f"{where}[{key!r}]") for key in expected]
    else:
        fields = wire.record_fields(expected)
        if fields is None:
            return value_mismatch(expected, actual, where)
        pairs = [(getattr(expected, name), getattr(actual, name), f"{where}.{name}") for name in fields]
    found = (first_mismatch(e, a, tolerance, path) for e, a, path in pairs)
    return next((each for each in found if each is not None), None)


def value_mismatch(expected: Any, actual: Any, where: str) -> Mismatch | None:
    """Compare two values that are no tensors."""
    if expected == actual or (is_nan(expected) and is_nan(actual)):
        return None
    difference = Difference(position=[], expected=repr(expected)[:100], actual=repr(actual)[:100])
    error = distance(expected, actual)
    return Mismatch(where=where, wrong=1, total=1, largest_error=error, first=[difference], rule="not equal")


def is_nan(value: Any) -> bool:
    """Tell whether a value is the float that equals nothing."""
    return isinstance(value, float) and math.isnan(value)


def distance(expected: Any, actual: Any) -> float | None:
    """Return how far two finite numbers are apart, None for anything else."""
    if not (wire.is_finite_number(expected) and wire.is_finite_number(actual)):
        return None
    try:
        return abs(float(expected) - float(actual))
    except OverflowError:
        return None


def tensor_mismatch(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: tuple[float, float] | None, where: str
) -> Mismatch | None:
    """Compare two tensors of equal shape and dtype element by element, on the processor."""
    left, right = widened(expected), widened(actual)
    relative, absolute = tolerance or TOLERANCES.get(expected.dtype, (0.0, 0.0))
    is_number = expected.is_floating_point() or expected.is_complex()
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
        largest_error=largest_error(left, right),
        first=first_differences(wrong, expected, actual),
        rule=rule,
    )


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


def largest_error(left: torch.Tensor, right: torch.Tensor) -> float | None:
    """Return the largest absolute difference over the elements that are finite on both sides."""
    if not (left.is_floating_point() or left.is_complex()):
        # Whole numbers are subtracted as floats: their own difference may overflow. Those that differ
        # by less than a float can tell differ by one at least.
        gap = float((right.to(torch.float64) - left.to(torch.float64)).abs().max())
        return max(gap, 1.0)
    error = (right - left).abs().to(torch.float64)
    finite = error[torch.isfinite(error)]
    return float(finite.max()) if finite.numel() else None


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
