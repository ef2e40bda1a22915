"""Brings an answer into the form of the reference's, or says why it has another.

The kind of a container or of a number says nothing about the work, so it is converted, and checkers meet only kinds
that the reference returns. Lengths, keys, nesting, shapes and devices have to be the reference's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from kernelcup_harness.protocol.enums import Reason
from kernelcup_harness.wire import arrays, records
from kernelcup_harness.wire import values as wire

COMPUTED = frozenset(dtype for dtype in wire.DTYPES.values() if not wire.is_opaque(dtype))
"""Dtypes that PyTorch has operations on."""
LARGEST_BITS = 1023
"""Whole numbers with more bits may have no floating-point number beside them."""


class Misfit(ValueError):
    """An answer has another form than the reference's; the text says where, and which."""

    reason = Reason.FORM


class WritesInput(Misfit):
    """A call changed a tensor of its input that the reference only reads."""

    reason = Reason.WRITES_INPUT


def structure_fault(
    expected: Any, actual: Any, where: str = "output", *, dtypes: Collection[torch.dtype] | None = ()
) -> str:
    """Return why :func:`fitted` refuses ``actual``, empty if it does not."""
    try:
        fitted(expected, actual, where, dtypes)
    except Misfit as misfit:
        return str(misfit)
    return ""


def fitted(expected: Any, actual: Any, where: str, dtypes: Collection[torch.dtype] | None) -> Any:
    """Return an answer in the form of the reference's. Raise :class:`Misfit`.

    Args:
        expected: The reference's output.
        actual: The answer.
        where: Names the answer in texts.
        dtypes: Those that its tensors may have beside the reference's; None for those that :func:`may_stand_for` it.
    """
    if isinstance(expected, torch.Tensor) or arrays.is_array(expected):
        return tensor_of(expected, actual, where, dtypes)
    fields = records.record_fields(expected)
    if fields is not None:
        return record_of(expected, fields, actual, where, dtypes)
    if isinstance(expected, (list, tuple)):
        return sequence_of(expected, actual, where, dtypes)
    if isinstance(expected, dict):
        return mapping_of(expected, records.as_mapping(actual), where, dtypes)
    if isinstance(expected, (bool, int, float, complex)) or arrays.is_number(expected):
        return number_of(expected, actual, where)
    if type(actual) is not type(expected):
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    return actual


def tensor_of(expected: Any, actual: Any, where: str, dtypes: Collection[torch.dtype] | None) -> Any:
    """Return a tensor or an array, as the reference's is; its elements are not read. A single one may be a number."""
    wanted = arrays.as_tensor(expected) if arrays.is_array(expected) else expected
    given = arrays.as_tensor(actual) if arrays.is_array(actual) else actual
    if wanted.numel() == 1 and not isinstance(given, torch.Tensor):
        number = None if wire.is_opaque(wanted.dtype) else converted(plain_number(given), wanted.dtype)
        if number is not None:
            given = torch.tensor(number, dtype=wanted.dtype, device=wanted.device).reshape(wanted.shape)
    if not isinstance(given, torch.Tensor):
        raise Misfit(
            f"{where} is {name_of(actual)}; expected {'a tensor' if wanted is expected else 'an array'}"
        )
    if given.shape != wanted.shape:
        raise Misfit(f"{where} has shape {list(given.shape)}; expected {list(wanted.shape)}")
    allowed = may_stand_for(wanted.dtype, given.dtype) if dtypes is None else given.dtype in dtypes
    if given.dtype != wanted.dtype and not allowed:
        raise Misfit(f"{where} has dtype {given.dtype}; expected {wanted.dtype}")
    if given.device.type != wanted.device.type:
        raise Misfit(f"{where} is on {given.device.type}; expected on {wanted.device.type}")
    if wanted is expected:
        return given
    # NumPy lacks some dtypes, such as bfloat16.
    return arrays.as_array(given if given.dtype in arrays.DTYPES else given.to(wanted.dtype))


def may_stand_for(expected: torch.dtype, actual: torch.dtype) -> bool:
    """Return whether a checker decides about answers of another dtype: it may convert what is expected to it.

    Whole numbers and bool have to hold every value of the reference's dtype. Floating-point numbers, and the parts
    of complex ones, need 16 bits: in fewer, nothing of what is expected may be left.
    """
    if not COMPUTED >= {expected, actual}:
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
    """Return a number of the reference's type. Its value counts, whatever holds it: one element of a tensor, too."""
    wanted = arrays.dtype_of(expected) if arrays.is_number(expected) else type(expected)
    number = converted(plain_number(actual), wanted)
    if number is None:
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    return type(expected)(number)


def plain_number(value: Any) -> Any:
    """Return a number, NumPy's number, or the one element of a tensor or an array, as Python's; None for others."""
    value = arrays.as_tensor(value) if arrays.is_array(value) else value
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 and not wire.is_opaque(value.dtype) else None
    if arrays.is_number(value):
        return value.item()
    return value if isinstance(value, (bool, int, float, complex)) else None


def converted(number: Any, wanted: torch.dtype | type) -> Any:
    """Return a number of Python's with the same value that a dtype or a type holds, None if there is none."""
    kind = kind_of(wanted) if isinstance(wanted, torch.dtype) else wanted
    if number is None or isinstance(number, bool) or kind is bool:
        return number if isinstance(number, bool) and kind is bool else None
    if kind is int:
        whole = isinstance(number, int) or (isinstance(number, float) and number.is_integer())
        low, high = range_of(wanted) if isinstance(wanted, torch.dtype) else (number, number)
        return int(number) if whole and low <= number <= high else None
    if isinstance(number, complex) and kind is float:
        return None
    return kind(number) if not isinstance(number, int) or number.bit_length() <= LARGEST_BITS else None


def sequence_of(expected: Any, actual: Any, where: str, dtypes: Collection[torch.dtype] | None) -> Any:
    """Return a list or a tuple, as the reference's is, with its items fitted."""
    if isinstance(actual, records.Fields):
        actual = list(actual.values())
    if not isinstance(actual, (list, tuple)):
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    if len(actual) != len(expected):
        raise Misfit(f"{where} has {len(actual)} items; expected {len(expected)}")
    pairs = enumerate(zip(expected, actual, strict=True))
    items = [fitted(e, a, f"{where}[{i}]", dtypes) for i, (e, a) in pairs]
    return items if isinstance(expected, list) else tuple(items)


def mapping_of(expected: Any, actual: Any, where: str, dtypes: Collection[torch.dtype] | None) -> Any:
    """Return a dict with the reference's keys, in their order."""
    if not isinstance(actual, dict):
        raise Misfit(f"{where} is {name_of(actual)}; expected a dict")
    if actual.keys() != expected.keys():
        raise Misfit(f"{where} has keys {key_names(actual)}; expected {key_names(expected)}")
    return {key: fitted(expected[key], actual[key], f"{where}[{key!r}]", dtypes) for key in expected}


def record_of(
    expected: Any, names: tuple[str, ...], actual: Any, where: str, dtypes: Collection[torch.dtype] | None
) -> Any:
    """Return a record of the reference's class. A namedtuple is a tuple, too, and may be one without names."""
    given = records.as_mapping(actual)
    if type(actual) in (list, tuple) and isinstance(expected, tuple) and len(actual) == len(names):
        given = dict(zip(names, actual, strict=True))
    if not isinstance(given, dict):
        raise Misfit(f"{where} is {name_of(actual)}; expected {name_of(expected)}")
    if given.keys() != set(names):
        raise Misfit(f"{where} has fields {key_names(given)}; expected {sorted(names)}")
    found = {n: fitted(getattr(expected, n), given[n], f"{where}.{n}", dtypes) for n in names}
    try:
        return records.build_record(type(expected), found)
    except Exception as error:
        # The task's own class may refuse values.
        raise Misfit(f"{where}: no {type(expected).__name__} has these values") from error


def key_names(mapping: dict[Any, Any]) -> list[str]:
    """Return the first keys of a dict, each cut to what a person reads."""
    return sorted(str(key)[:40] for key in mapping)[:10]


def name_of(value: Any) -> str:
    """Name the type of a value for a person."""
    return "None" if value is None else f"a {type(value).__name__}"
