"""Inputs that differ from an earlier one in one element.

A submission that recognises an input by a few of its elements, or by its place in memory, answers
such a twin with the other's answer. Only what stays an input of the task is changed: an element of a
floating-point tensor that looks like data takes the value of another element of the same tensor.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from kernelcup_harness import aliasing

CHANGED_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
FEWEST_ELEMENTS = 16
LOOKED_AT = 4096
"""Elements by which a tensor is told from a mask, a constant or a sorted list."""
FEWEST_VALUES = 8
TRIES = 32


def change_one(value: Any, chance: random.Random) -> bool:
    """Change one element of one tensor in place, and tell whether there was one that may be changed."""
    candidates = [tensor for tensor in aliasing.leaves(value) if looks_like_data(tensor)]
    if not candidates:
        return False
    # The larger a tensor, the more of an answer may be kept for it.
    chosen = chance.choices(candidates, weights=[tensor.numel() for tensor in candidates])[0]
    return exchange(chosen, chance)


def exchange(tensor: torch.Tensor, chance: random.Random) -> bool:
    """Give one element the value of another, if two are found that differ."""
    flat = element_places(tensor)
    for _ in range(TRIES):
        here, there = flat(chance.randrange(tensor.numel())), flat(chance.randrange(tensor.numel()))
        old, new = tensor[here].item(), tensor[there].item()
        if old != new and old and new and abs(old) != float("inf") and abs(new) != float("inf"):
            tensor[here] = new
            return True
    return False


def element_places(tensor: torch.Tensor) -> Any:
    """Return a function from a number below ``numel`` to the index of an element."""
    shape = tuple(tensor.shape)

    def place(number: int) -> tuple[int, ...]:
        index = []
        for size in reversed(shape):
            number, rest = divmod(number, size)
            index.append(rest)
        return tuple(index[::-1])

    return place


def looks_like_data(tensor: torch.Tensor) -> bool:
    """Tell whether one element may be changed without breaking what the rest promises.

    Masks and constants have few values; sorted lists and symmetric matrices have an order.
    """
    if tensor.dtype not in CHANGED_TYPES or tensor.numel() < FEWEST_ELEMENTS or is_expanded(tensor):
        return False
    sample = tensor.reshape(-1)[:LOOKED_AT].double().cpu()
    if sample.unique().numel() < FEWEST_VALUES or not bool(sample.isfinite().any()):
        return False
    steps = sample.diff()
    return not (bool((steps >= 0).all()) or bool((steps <= 0).all()) or is_symmetric(tensor))


def is_expanded(tensor: torch.Tensor) -> bool:
    """Tell whether several places share one element."""
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Tell whether the last two dimensions can be exchanged."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return False
    first = tensor.reshape(-1, *tensor.shape[-2:])[0]
    return bool(torch.equal(first, first.mT))
