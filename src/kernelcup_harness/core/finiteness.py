"""Finds NaN and infinities in an answer. They are wrong if the reference's answer is finite there.

The checker alone is not enough: many count ``error > tolerance``, which is false for NaN.
"""

from __future__ import annotations

import cmath
from collections.abc import Iterator
from typing import Any

import torch

from kernelcup_harness.wire import aliasing, arrays

CHUNK = 1 << 24
"""Elements per step, so that a large answer does not need its memory twice."""
WITHOUT = "torch.float4_e2m1fn_x2"
"""A format with fractions that has neither NaN nor infinities."""


def is_finite(value: Any) -> bool:
    """Return whether every number of an answer is finite."""
    return all(leaf_is_finite(leaf) for _, leaf, _ in aliasing.leaf_pairs(value, value))


def first_unexpected(expected: Any, actual: Any) -> tuple[str, Any, Any] | None:
    """Return the first leaf that is not finite where the expected one is: path, expected, actual.

    Both values have the same structure, and their tensors the same shapes.
    """
    pairs = aliasing.leaf_pairs(expected, actual)
    return next((each for each in pairs if is_unexpected(each[1], each[2])), None)


def leaf_is_finite(leaf: Any) -> bool:
    """Return whether every element of a tensor, or a number, is finite; True for anything else."""
    if not isinstance(leaf, torch.Tensor):
        return is_finite_number(leaf)
    # Minimum and maximum are NaN if any element is, so one pass without extra memory is enough.
    ends = (torch.stack(torch.aminmax(chunk)) for chunk in chunks(leaf))
    return all(bool(torch.isfinite(each).all()) for each in ends)


def is_unexpected(expected: Any, actual: Any) -> bool:
    """Return whether ``actual`` has a number that is not finite where the expected one is."""
    if leaf_is_finite(actual):
        return False
    if not isinstance(expected, torch.Tensor):
        return is_finite_number(expected)
    left, right = expected.detach(), actual.detach()
    if not has_such(left):
        return True
    if left.shape != right.shape:  # values of sparse tensors
        return leaf_is_finite(left)
    # A real answer where the reference's is complex has the wrong form.
    if right.is_complex() and not left.is_complex():
        left = left.to(right.dtype)
    pairs = zip(chunks(left), chunks(right), strict=True)
    return any(bool((torch.isfinite(e) & ~torch.isfinite(a)).any()) for e, a in pairs)


def is_finite_number(value: Any) -> bool:
    """Return whether a number, Python's or NumPy's, is finite; True for anything else."""
    # Of NumPy's numbers only those of 64 bits are Python's, too.
    number = value.item() if arrays.is_number(value) else value
    return not isinstance(number, (float, complex)) or cmath.isfinite(number)


def chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the elements in chunks of a real dtype that PyTorch can compute with; none if all are finite."""
    if not has_such(tensor):
        return
    plain = tensor.detach()
    flat = (torch.view_as_real(plain) if plain.is_complex() else plain).reshape(-1)
    for chunk in flat.split(CHUNK):
        if chunk.numel():
            yield chunk if chunk.dtype.itemsize > 1 else chunk.to(torch.float32)


def has_such(tensor: torch.Tensor) -> bool:
    """Return whether elements of this dtype can be NaN or infinite."""
    return (tensor.is_floating_point() or tensor.is_complex()) and str(tensor.dtype) != WITHOUT
