"""Lists the tensors of a value, and finds those that share memory in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from kernelcup_harness.wire import arrays, records, values

MAX_PAIRS = 1000

# Taken from the class: an instance may override functions of the same names.
ADDRESS = torch.Tensor.data_ptr
DETACH = torch.Tensor.detach


def leaves(value: Any) -> list[torch.Tensor]:
    """Return the plain dense tensors of a value in the order of its tree, with repetitions; arrays as tensors."""
    return [tensor for _, tensor in named_leaves(value, "")]


def named_leaves(value: Any, where: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what :func:`leaves` returns, each with its path."""
    fields = records.record_fields(value)
    parts: Iterable[tuple[str, Any]] = ()
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        if value.layout is torch.strided:
            yield where, DETACH(value)
    elif arrays.is_array(value):
        if arrays.can_carry(value):
            yield where, arrays.as_tensor(value)
    elif fields is not None:
        parts = ((f"{where}.{name}", getattr(value, name)) for name in fields)
    elif isinstance(value, (list, tuple)):
        parts = ((f"{where}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, dict):
        parts = ((f"{where}[{key!r}]", item) for key, item in value.items())
    for path, part in parts:
        yield from named_leaves(part, path)


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
