"""Decides whether an answer has the type, shape and device of the reference's, and its dtype where that counts."""

from __future__ import annotations

from typing import Any

import torch

from kernelcup_harness.wire import arrays, records
from kernelcup_harness.wire import values as wire


def structure_fault(expected: Any, actual: Any, where: str = "output", *, dtype: bool = True) -> str:
    """Return how ``actual`` differs in type, shape, device or ``dtype``, empty if it does not."""
    if isinstance(expected, torch.Tensor):
        return tensor_fault(expected, actual, where, dtype=dtype)
    if arrays.is_array(expected):
        if not arrays.is_array(actual):
            return f"{where} is {name_of(actual)}; expected an array"
        return tensor_fault(arrays.as_tensor(expected), arrays.as_tensor(actual), where, dtype=dtype)
    if type(expected) in (list, tuple):
        return sequence_fault(expected, actual, where, dtype=dtype)
    if type(expected) is dict:
        return mapping_fault(expected, actual, where, dtype=dtype)
    fields = records.record_fields(expected)
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
    # PyTorch has no operations on some dtypes, so no checker can decide whether another one has equal values.
    strict = dtype or wire.is_opaque(actual.dtype) or wire.is_opaque(expected.dtype)
    # A checker may convert what is expected to the answer's dtype: in a narrower kind nothing of it is left.
    strict = strict or not torch.can_cast(expected.dtype, actual.dtype)
    if strict and actual.dtype != expected.dtype:
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
