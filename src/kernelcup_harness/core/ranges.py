"""Finds numbers that no right answer has: NaN and infinities where the reference's is finite, and numbers far off.

The checker alone is not enough: ``error > tolerance`` is false for NaN, whole numbers wrap, and large ones overflow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from kernelcup_harness.protocol.enums import Reason
from kernelcup_harness.wire import aliasing, arrays, values

CHUNK = 1 << 24
"""Elements per step, so that a large answer does not need its memory twice."""
TIMES, TIMES_WHOLE = 16, 256
"""Multiples of a range by which fractions, and whole numbers, may lie outside of it."""
TOP = 1 << 63
Room = tuple[Any, Any]
Found = tuple[Reason, str, str, Any, Any] | None


def all_ends(value: Any) -> list[Any]:
    """Return the ends of all leaves of an answer."""
    return [end for _, leaf, _ in aliasing.leaf_pairs(value, value) for end in ends(leaf)]


def is_near(value: Any, rooms: Sequence[Room] | None = None) -> bool:
    """Return whether an answer is finite, and far outside of no range that there can be, or has that of another input.

    ``rooms`` are what the reference's answer to another input of the same case allows: to compute it for each input
    would take as long as the checker.
    """
    leaves = [ends(leaf) for _, leaf, _ in aliasing.leaf_pairs(value, value)]
    if all(type(end) is float and -TIMES < end < TIMES for found in leaves for end in found):
        return True
    if rooms is None or len(rooms) != len(leaves):
        return False
    return all(low <= end <= high for (low, high), found in zip(rooms, leaves, strict=True) for end in found)


def rooms_of(expected: Any) -> list[Room] | None:
    """Return the numbers that the reference's answer allows each leaf; None if one of its numbers is not finite."""
    known = [ends(leaf) for _, leaf, _ in aliasing.leaf_pairs(expected, expected)]
    if not all(math.isfinite(end) for found in known for end in found):
        return None
    return [room(found) if found else (math.nan, math.nan) for found in known]


def room(known: Sequence[Any]) -> Room:
    """Return the least and the largest number that does not lie far outside of a range."""
    low, high = min(known), max(known)
    whole, wide = TIMES_WHOLE * max(1, high - low), TIMES * max(1.0, high - low, abs(low), abs(high))
    more = whole if type(low) is int else wide
    return low - more, high + more


def first_unexpected(expected: Any, actual: Any, *, finite: bool = True, near: bool = True) -> Found:
    """Return why the first leaf with a number that no right one has is wrong, in words too, its path, and both leaves.

    Both values have the same structure, and their tensors the same shapes. Where the expected number is not finite, all
    are right. With ``finite`` others have to be finite, with ``near`` not far outside of the range of their leaf.
    """
    for where, right, wrong in aliasing.leaf_pairs(expected, actual):
        known, found = ends(right), ends(wrong)
        if not all(map(math.isfinite, (*known, *found))):
            left, mine = flat(right), flat(wrong)
            alike = left.shape == mine.shape
            if not alike:  # values of sparse tensors: nothing is said if one of the expected is not finite
                left = mine.new_full(mine.shape, known[0] - known[1], dtype=torch.float64)
            pairs = list(zip(left.split(CHUNK), mine.split(CHUNK), strict=True))
            if finite and any(bool((e.isfinite() & ~a.isfinite()).any()) for e, a in pairs):
                text = f"NaN or infinite in {where}, where the reference's answer is finite"
                return Reason.DIFFERS, text, where, right, wrong
            found = [end for e, a in pairs for end in ends(a[e.isfinite() & a.isfinite()])]
            known = [end for e, _ in pairs for end in ends(e[e.isfinite()])] if alike else known
        if near and known:
            least, most = room(known)
            for far in (end for end in found if not least <= end <= most):
                span = f"{min(known)!s:.40} to {max(known)!s:.40}"
                text = f"{far!s:.40} in {where}, far outside of {span}, the reference's range"
                return Reason.RANGE, text, where, right, wrong
    return None


def ends(leaf: Any) -> list[Any]:
    """Return the smallest and the largest number of a leaf, NaN if one is. Whole numbers of one byte have no ends: no
    two of them are far from each other."""
    number = leaf.item() if arrays.is_number(leaf) else leaf
    if type(number) is int:
        return [number, number]
    if type(number) not in (float, complex) and not isinstance(leaf, torch.Tensor):
        return []
    plain = flat(number)
    found = torch.stack(torch.aminmax(plain)).tolist() if plain.itemsize > 1 and plain.numel() else []
    return [end + TOP for end in found] if getattr(leaf, "dtype", None) is torch.uint64 else found


def flat(leaf: Any) -> torch.Tensor:
    """Return the elements of a leaf as one dimension of a real dtype that PyTorch compares."""
    if not isinstance(leaf, torch.Tensor):
        number = leaf.item() if arrays.is_number(leaf) else leaf
        leaf = torch.tensor(number, dtype=torch.complex128 if type(number) is complex else torch.float64)
    plain = (torch.view_as_real(leaf.detach()) if leaf.is_complex() else leaf.detach()).reshape(-1)
    if plain.dtype in (torch.uint16, torch.uint32):
        return plain.to(torch.int64)
    if plain.dtype is torch.uint64:
        return plain.view(torch.int64) ^ -TOP
    if plain.itemsize > 1:
        return plain
    has_fractions = plain.is_floating_point() and not values.is_opaque(plain.dtype)
    return plain.bfloat16() if has_fractions else plain.view(torch.uint8)
