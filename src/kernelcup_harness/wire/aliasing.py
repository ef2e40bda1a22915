"""Lists the tensors of a value, and finds those that share memory in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from kernelcup_harness.wire import arrays, records, sparse, values

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
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
        yield where, DETACH(value)
    elif arrays.is_array(value):
        if arrays.can_carry(value):
            yield where, arrays.as_tensor(value)
    elif fields is not None:
        parts = ((f"{where}.{name}", records.part(value, name)) for name in fields)
    elif isinstance(value, (list, tuple)):
        parts = ((f"{where}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, dict):
        parts = ((f"{where}[{key!r}]", item) for key, item in value.items())
    for path, part in parts:
        yield from named_leaves(part, path)


def indices(value: Any) -> set[int]:
    """Return the leaves, by number, that say where a sparse tensor has its elements."""
    named = enumerate(named_leaves(value, ""))
    return {number for number, (path, _) in named if path.endswith(sparse.INDICES)}


def leaf_pairs(expected: Any, actual: Any, where: str = "output") -> Iterator[tuple[str, Any, Any]]:
    """Yield each leaf of two values of the same structure, with its path."""
    if (fields := records.record_fields(expected)) is not None:
        for name in fields:
            left, right = (records.part(each, name) for each in (expected, actual))
            yield from leaf_pairs(left, right, f"{where}.{name}")
    elif isinstance(expected, (list, tuple)):
        for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from leaf_pairs(left, right, f"{where}[{i}]")
    elif isinstance(expected, dict):
        for key in expected:
            yield from leaf_pairs(expected[key], actual[key], f"{where}[{key!r}]")
    elif arrays.is_array(expected):
        yield where, arrays.as_tensor(expected), arrays.as_tensor(actual)
    else:
        yield where, expected, actual


def shared(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> set[int]:
    """Return the inputs, by number, whose memory an output overlaps."""
    mine = [extent(tensor) for tensor in outputs if tensor.numel()]
    theirs = [(number, extent(tensor)) for number, tensor in enumerate(inputs) if tensor.numel()]
    return {n for n, (begin, end) in theirs if any(first < end and begin < last for first, last in mine)}


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first address of a tensor and the address after its last byte."""
    begin = ADDRESS(tensor)
    return begin, begin + values.span_of(tensor) * tensor.element_size()
