"""Finds tensors that share memory. The contestant reports them, the judge decides whether they may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernelcup_harness.wire import arrays, records, values

MAX_PAIRS = 1000

# Taken from the class: an instance may override functions of the same names.
ADDRESS = torch.Tensor.data_ptr
DETACH = torch.Tensor.detach


def leaves(value: Any) -> list[torch.Tensor]:
    """Return the plain dense tensors of a value in the order of its tree, with repetitions; arrays as tensors."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return [DETACH(value)] if value.layout is torch.strided else []
    if arrays.is_array(value):
        return [arrays.as_tensor(value)] if arrays.can_carry(value) else []
    if type(value) is dict:
        return [tensor for item in value.values() for tensor in leaves(item)]
    if type(value) in (list, tuple):
        return [tensor for item in value for tensor in leaves(item)]
    fields = records.record_fields(value) or ()
    return [tensor for name in fields for tensor in leaves(getattr(value, name))]


def shared(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Return pairs (output, input) of indices whose memory overlaps."""
    ranges = [(place, extent(tensor)) for place, tensor in enumerate(inputs) if tensor.numel()]
    found = [
        (number, place)
        for number, tensor in enumerate(outputs)
        if tensor.numel()
        for place, (begin, end) in ranges
        if extent(tensor)[0] < end and begin < extent(tensor)[1]
    ]
    return found[:MAX_PAIRS]


def repeated(outputs: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Return pairs of indices of outputs that begin at the same address.

    Outputs with different addresses may overlap in range without a common element, like the columns of a matrix.
    """
    first: dict[int, int] = {}
    found = []
    for number, tensor in enumerate(outputs):
        if tensor.numel():
            before = first.setdefault(ADDRESS(tensor), number)
            if before != number:
                found.append((before, number))
    return found[:MAX_PAIRS]


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first address of a tensor and the address after its last byte."""
    begin = ADDRESS(tensor)
    return begin, begin + values.span_of(tensor) * tensor.element_size()


def places(value: object, sizes: tuple[int, int]) -> list[tuple[int, int]]:
    """Read a list of pairs from an untrusted reply. Raise ValueError for anything else."""
    if not isinstance(value, list) or len(value) > MAX_PAIRS:
        raise ValueError("no list of pairs")
    pairs = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("no pair")
        if any(type(n) is not int or not 0 <= n < size for n, size in zip(pair, sizes, strict=True)):
            raise ValueError("no place of a tensor")
        pairs.append((pair[0], pair[1]))
    return pairs
