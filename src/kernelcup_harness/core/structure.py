"""Brings an answer into the form of the reference's, or says why it has another.

The kind of a container or of a number says nothing about the work, so it is converted, and checkers meet only kinds
that the reference returns. Lengths, keys, nesting, shapes and devices have to be the reference's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from kernelcup_harness.core import ranges
from kernelcup_harness.protocol.enums import Reason
from kernelcup_harness.wire import arrays, records
from kernelcup_harness.wire import values as wire

Dtypes = Collection[torch.dtype] | None
"""What tensors of answers may have beside the reference's dtype; None for what :func:`may_stand_for` it."""
COMPUTED = frozenset(dtype for dtype in wire.DTYPES.values() if not wire.is_opaque(dtype))
"""Dtypes that PyTorch has operations on."""


class Misfit(ValueError):
    """An answer has another form than the reference's; the text says where, and which."""

    reason = Reason.FORM


class WritesInput(Misfit):
    """A call changed a tensor of its input that the reference only reads."""

    reason = Reason.WRITES_INPUT


def structure_fault(expected: Any, actual: Any, *, dtypes: Dtypes = ()) -> str:
    """Return why :func:`fitted` refuses ``actual``, empty if it does not."""
    try:
        fitted(expected, actual, dtypes)
    except Misfit as misfit:
        return str(misfit)
    return ""


def fitted(expected: Any, actual: Any, dtypes: Dtypes, where: str = "output") -> Any:
    """Return an answer in the form of the reference's. Raise :class:`Misfit`."""
    if isinstance(expected, torch.Tensor) or arrays.is_array(expected):
        return tensor_of(expected, actual, dtypes, where)
    if isinstance(expected, (bool, int, float, complex)) or arrays.is_number(expected):
        return number_of(expected, actual, where)
    named = records.as_mapping(expected)
    if isinstance(named, dict):
        return named_parts(expected, named, actual, dtypes, where)
    if isinstance(expected, (list, tuple)):
        return items_of(expected, actual, dtypes, where)
    if type(actual) is not type(expected):
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    return actual


def tensor_of(expected: Any, actual: Any, dtypes: Dtypes, where: str) -> Any:
    """Return a tensor or an array, as the reference's is; its elements are not read. A single one may be a number."""
    wanted = arrays.as_tensor(expected) if arrays.is_array(expected) else expected
    given = arrays.as_tensor(actual) if arrays.is_array(actual) else actual
    if not isinstance(given, torch.Tensor) and wanted.numel() == 1 and wanted.dtype in COMPUTED:
        number = converted(given, kind_of(wanted.dtype), wanted.dtype)
        if number is not None:
            given = torch.tensor(number, dtype=wanted.dtype, device=wanted.device).reshape(wanted.shape)
    if not isinstance(given, torch.Tensor):
        kind = "a tensor" if wanted is expected else "an array"
        raise Misfit(f"{where} is {name_of(actual)}; expected {kind}")
    if given.shape != wanted.shape:
        raise Misfit(f"{where} has shape {list(given.shape)}; expected {list(wanted.shape)}")
    allowed = may_stand_for(wanted.dtype, given.dtype) if dtypes is None else given.dtype in dtypes
    if given.dtype != wanted.dtype and (not allowed or wanted.layout is not torch.strided):
        raise Misfit(f"{where} has dtype {given.dtype}; expected {wanted.dtype}")
    if given.layout is not wanted.layout:
        raise Misfit(f"{where} has layout {given.layout}; expected {wanted.layout}")
    if given.device.type != wanted.device.type:
        raise Misfit(f"{where} is on {given.device.type}; expected on {wanted.device.type}")
    if given.dtype != wanted.dtype:
        given = in_range(wanted.dtype, given, where)
    if wanted is expected:
        return given
    # NumPy lacks some of these dtypes, such as bfloat16.
    return arrays.as_array(given if kind_of(given.dtype) in (bool, int) else given.to(wanted.dtype))


def in_range(dtype: torch.dtype, given: torch.Tensor, where: str) -> torch.Tensor:
    """Return a tensor whose elements all have a place in a dtype, a mask as a mask. Raise :class:`Misfit`.

    A checker may convert the answer: a whole number would wrap, and a finite number become infinite.
    """
    whole = {kind_of(dtype), kind_of(given.dtype)} <= {bool, int}
    if not whole and kind_of(dtype) is not kind_of(given.dtype):
        return given
    narrow = given.to(dtype)
    if whole:
        if not torch.equal(wire.bytes_of(narrow.to(given.dtype)), wire.bytes_of(wire.contiguous(given))):
            raise Misfit(f"{where} has an element that is no {dtype}")
        return narrow if dtype is torch.bool else given
    if ranges.first_unexpected(given, narrow, near=False):
        raise Misfit(f"{where} has an element that is infinite as {dtype}")
    return given


def may_stand_for(expected: torch.dtype, actual: torch.dtype) -> bool:
    """Return whether a checker decides about answers of another dtype: it may convert what is expected to it.

    Whole numbers and bool have to hold every value of the reference's dtype. Floating-point numbers, and the parts
    of complex ones, need 16 bits: in fewer, nothing of what is expected may be left.
    """
    if not {expected, actual} <= COMPUTED:
        return False
    if kind_of(expected) is not kind_of(actual):
        return expected is torch.bool and kind_of(actual) is int
    if kind_of(actual) is int:
        (low, high), (least, most) = range_of(expected), range_of(actual)
        return least <= low and high <= most
    return bool(actual.itemsize >= (4 if actual.is_complex else 2))


def dtypes_of(names: Sequence[str] | None) -> frozenset[torch.dtype] | None:
    """Return the dtypes that a task names, None for none. Raise ``LookupError``."""
    if wrong := {name for name in names or () if wire.DTYPES.get(name) not in COMPUTED}:
        raise LookupError(f"dtypes: {min(wrong)[:40]!r} is none that PyTorch computes with")
    return None if names is None else frozenset(wire.DTYPES[name] for name in names)


def kind_of(dtype: torch.dtype) -> type:
    """Return Python's type of the elements of a dtype."""
    if dtype.is_complex:
        return complex
    return bool if dtype is torch.bool else float if dtype.is_floating_point else int


def range_of(dtype: torch.dtype) -> tuple[int, int]:
    """Return the smallest and the largest element of a dtype of whole numbers."""
    bits = 8 * dtype.itemsize
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def number_of(expected: Any, actual: Any, where: str) -> Any:
    """Return a number of the reference's type. Its value counts, whatever holds it."""
    if arrays.is_number(expected):
        number = converted(actual, type(expected.item()), arrays.dtype_of(expected))
    else:
        number = converted(actual, type(expected))
    if number is None:
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    return type(expected)(number)


def converted(value: Any, kind: type, dtype: torch.dtype | None = None) -> Any:
    """Return the one number that a value holds, as one of Python's kinds and in a dtype's range; None for none."""
    value = arrays.as_tensor(value) if arrays.is_array(value) else value
    if isinstance(value, torch.Tensor):
        value = value.item() if value.numel() == 1 and value.dtype in COMPUTED else None
    number = value.item() if arrays.is_number(value) else value
    if type(number) not in (bool, int, float, complex) or (
        bool in (type(number), kind) and type(number) is not kind
    ):
        return None
    try:
        found = kind(number)
    except (TypeError, ValueError, OverflowError):
        return None
    low, high = range_of(dtype) if dtype is not None and kind is int else (found, found)
    return found if kind is not int or (found == number and low <= found <= high) else None


def items_of(expected: Any, actual: Any, dtypes: Dtypes, where: str) -> Any:
    """Return a list or a tuple, as the reference's is, with its items fitted."""
    given = list(actual.values()) if isinstance(actual, records.Fields) else actual
    if not isinstance(given, (list, tuple)):
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    if len(given) != len(expected):
        raise Misfit(f"{where} has {len(given)} items; expected {len(expected)}")
    pairs = enumerate(zip(expected, given, strict=True))
    items = [fitted(right, mine, dtypes, f"{where}[{number}]") for number, (right, mine) in pairs]
    return items if isinstance(expected, list) else tuple(items)


def named_parts(expected: Any, named: dict[Any, Any], actual: Any, dtypes: Dtypes, where: str) -> Any:
    """Return a dict or a record, as the reference's is, with its parts fitted. A tuple may be a namedtuple."""
    given = records.as_mapping(actual)
    if isinstance(expected, tuple) and type(actual) in (list, tuple) and len(actual) == len(named):
        given = dict(zip(named, actual, strict=True))
    if not isinstance(given, dict):
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    if given.keys() != named.keys():
        raise Misfit(f"{where} has keys {key_names(given)}; expected {key_names(named)}")
    if isinstance(expected, dict):
        return {key: fitted(part, given[key], dtypes, f"{where}[{key!r}]") for key, part in named.items()}
    parts = {name: fitted(part, given[name], dtypes, f"{where}.{name}") for name, part in named.items()}
    try:
        return records.assembled(type(expected), parts)
    except Exception as error:
        raise Misfit(f"{where}: a {type(expected).__name__} cannot be built") from error


def key_names(mapping: dict[Any, Any]) -> list[str]:
    """Return the first keys of a dict, each cut to what a person reads."""
    return sorted(str(key)[:40] for key in mapping)[:10]


def name_of(value: Any) -> str:
    """Name the type of a value for a person."""
    return "None" if value is None else f"a {type(value).__name__}"
