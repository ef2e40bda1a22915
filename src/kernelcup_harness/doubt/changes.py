"""Changes one element of a tensor and keeps its properties: sorted, in range, without repetition.

The new value lies between values that the tensor has. Sorted tensors stay sorted, distinct integers stay
distinct, zeros stay zeros, and a symmetric matrix stays symmetric. Not changed are masks with a structure
(triangular, sorted, equal counts in each row), integer constants below 1, and tensors in which several
places share one element.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch

SEEN = 4096
"""Number of elements, spread over a tensor, from which its properties are inferred."""
TRIES = 32
"""Number of places to try; the largest change is taken."""
FEWEST_DIFFERENT = 8
"""Fewer integers than this may be distinct by chance."""
ROWS = 64
# Viewed as signed integers of the same size: PyTorch hardly computes with unsigned ones.
AS_NUMBERS = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
}

Place = tuple[int, ...]


def change_element(tensor: torch.Tensor, chance: random.Random) -> bool:
    """Give one element another value, in place. Return False if no change fits."""
    if tensor.numel() == 0 or is_expanded(tensor):
        return False
    with torch.no_grad():
        return Changer(workable(tensor), chance, is_bytes=not has_order(tensor)).change()


def workable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same memory in a dtype that PyTorch computes with."""
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        return tensor.view(torch.uint8)
    return tensor.view(AS_NUMBERS[tensor.dtype]) if tensor.dtype in AS_NUMBERS else tensor


def has_order(tensor: torch.Tensor) -> bool:
    """Return whether the elements' bytes have the order of the elements."""
    return not (tensor.is_floating_point() and tensor.dtype.itemsize == 1)


def is_expanded(tensor: torch.Tensor) -> bool:
    """Return whether several places share one element."""
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


class Changer:
    """Finds the change for one tensor.

    Args:
        tensor: The tensor to change.
        chance: Random numbers for the choice of places.
        is_bytes: Whether the numbers are only the bytes of elements in another format.
    """

    def __init__(self, tensor: torch.Tensor, chance: random.Random, *, is_bytes: bool) -> None:
        self._tensor = tensor
        self._chance = chance
        self._is_bytes = is_bytes
        self._seen = spread(tensor)

    def change(self) -> bool:
        """Make the change that fits the tensor's properties."""
        if is_constant(self._tensor, self._seen):
            return self._change_constant()
        orders = [] if self._tensor.is_complex() or self._is_bytes else orders_of(self._seen)
        if is_mask(self._seen):
            return not orders and self._change_mask()
        if orders:
            return self._change_sorted(orders)
        if is_symmetric(self._tensor):
            return self._change_diagonal()
        if not is_whole(self._tensor):
            return self._take_anothers_value()
        return self._change_different() if self._is_all_different() else self._take_anothers_value()

    def _change_constant(self) -> bool:
        place = self._places(1)[0]
        old = self._tensor[place].item()
        new = in_place_of_constant(old, whole=is_whole(self._tensor), is_bytes=self._is_bytes)
        return new is not None and self._set(place, new)

    def _change_mask(self) -> bool:
        """Flip an element of a mask, unless that would break its structure."""
        if is_triangular(self._seen) or has_equal_rows(self._tensor):
            return False
        place = self._places(1)[0]
        old = self._tensor[place].item()
        others = [each for each in self._seen.unique().tolist() if each != old]
        return bool(others) and self._set(place, others[0])

    def _change_sorted(self, orders: Sequence[tuple[int, bool]]) -> bool:
        """Move an element towards its neighbour; the first and the last stay unchanged."""
        if any(self._tensor.shape[dim] < 3 for dim, _ in orders):
            return False
        strict = is_whole(self._tensor) and all(
            bool((self._seen.diff(dim=dim) != 0).all()) for dim, _ in orders
        )
        best: tuple[float, Place, Any] | None = None
        for place in self._places(TRIES, inside=[dim for dim, _ in orders]):
            old, low, high = self._between(place, orders)
            new = moved(old, low, high, whole=is_whole(self._tensor), strict=strict)
            if new is not None and (best is None or abs(new - old) > best[0]):
                best = abs(new - old), place, new
        return best is not None and self._set(best[1], best[2])

    def _between(self, place: Place, orders: Sequence[tuple[int, bool]]) -> tuple[Any, Any, Any]:
        """Return an element, and the bounds set by its neighbours."""
        lows, highs = [], []
        for dim, up in orders:
            ends = [
                self._tensor[(*place[:dim], place[dim] + step, *place[dim + 1 :])].item() for step in (-1, 1)
            ]
            lows.append(ends[0] if up else ends[1])
            highs.append(ends[1] if up else ends[0])
        return self._tensor[place].item(), max(lows), min(highs)

    def _change_diagonal(self) -> bool:
        """Give an element of the diagonal the largest value of the diagonal."""
        first = (0,) * (self._tensor.dim() - 2)
        diagonal = self._tensor[first].diagonal()[:SEEN].tolist()
        new = max(diagonal, key=abs)
        others = [i for i, each in enumerate(diagonal) if each != new and each and is_number(each)]
        if not others or not is_number(new):
            return False
        i = self._chance.choice(others)
        return self._set((*first, i, i), new)

    def _take_anothers_value(self) -> bool:
        """Give an element the most different value among a few others; zeros stay zeros."""
        places = self._places(TRIES)
        values = [self._tensor[place].item() for place in places]
        if not is_whole(self._tensor):
            values += self._seen.reshape(-1)[:TRIES].tolist()
        usable = [
            each for each in values if is_number(each) and (each or is_whole(self._tensor) or self._is_bytes)
        ]
        pairs = [
            (abs(new - old), i)
            for i, old in enumerate(values[: len(places)])
            for new in usable
            if new != old and old in usable
        ]
        if not pairs:
            return False
        _, i = max(pairs)
        new = max(usable, key=lambda each: abs(each - values[i]))
        return self._set(places[i], new)

    def _is_all_different(self) -> bool:
        """Return whether integers in a row seem never to repeat."""
        rows = self._seen.reshape(-1, self._seen.shape[-1])
        if self._is_bytes or rows.shape[1] < 2 or rows.numel() < FEWEST_DIFFERENT:
            return False
        return bool((rows.sort(dim=-1).values.diff(dim=-1) != 0).all())

    def _change_different(self) -> bool:
        """Take a number in range that the row does not have; if it has all, exchange two."""
        place = self._places(1)[0]
        row, old = self._tensor[place[:-1]], self._tensor[place].item()
        low, high = (int(end.item()) for end in torch.aminmax(self._tensor))
        for _ in range(TRIES):
            new = self._chance.randint(low, high)
            if not bool((row == new).any()):
                return self._set(place, new)
        other = (*place[:-1], (place[-1] + 1) % row.numel())
        self._tensor[place] = self._tensor[other].item()
        return self._set(other, old)

    def _places(self, count: int, inside: Sequence[int] = ()) -> list[Place]:
        """Return random places, excluding the ends along the dimensions ``inside``."""
        ranges = [
            (1, size - 2) if dim in inside else (0, size - 1) for dim, size in enumerate(self._tensor.shape)
        ]
        return [tuple(self._chance.randint(*ends) for ends in ranges) for _ in range(count)]

    def _set(self, place: Place, new: Any) -> bool:
        old = self._tensor[place].item()
        self._tensor[place] = new
        return bool(self._tensor[place].item() != old)


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """Return elements spread evenly over a tensor, in its order, on the processor."""
    if tensor.dim() == 0:
        return tensor.reshape(1).cpu()
    most = max(2, round(SEEN ** (1 / tensor.dim())))
    return tensor[tuple(slice(0, None, max(1, size // most)) for size in tensor.shape)].cpu()


def is_whole(tensor: torch.Tensor) -> bool:
    """Return whether the elements are integers or bools."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def is_number(value: Any) -> bool:
    """Return whether a value is finite."""
    return math.isfinite(value.real) and math.isfinite(value.imag)


def is_constant(tensor: torch.Tensor, seen: torch.Tensor) -> bool:
    """Return whether all elements are equal; a few of them usually decide it."""
    first = seen.reshape(-1)[0]
    return bool((seen == first).all()) and bool((tensor == first.item()).all())


def all_equal(tensor: torch.Tensor) -> bool:
    """Return whether all elements of a tensor of any dtype are equal."""
    return tensor.numel() == 0 or is_constant(workable(tensor), spread(workable(tensor)))


def in_place_of_constant(old: Any, *, whole: bool, is_bytes: bool) -> Any:
    """Return another value for one element of a constant, between it and zero. None if there is none."""
    if isinstance(old, bool):
        return not old
    if is_bytes or whole:
        return None if old < 1 else 0 if is_bytes else old // 2
    if not is_number(old):
        return None
    # A tensor of ones may be a mask.
    return {0: 1.0, 1: 0.0}.get(old, old / 2)


def orders_of(seen: torch.Tensor) -> list[tuple[int, bool]]:
    """Return the dimensions along which elements are sorted, and whether upwards."""
    orders = []
    numbers = seen.to(torch.int8) if seen.dtype is torch.bool else seen
    for dim in range(numbers.dim()):
        steps = numbers.diff(dim=dim)
        if steps.numel() and bool((steps != 0).any()):
            if bool((steps >= 0).all()):
                orders.append((dim, True))
            elif bool((steps <= 0).all()):
                orders.append((dim, False))
    return orders


def moved(old: Any, low: Any, high: Any, *, whole: bool, strict: bool) -> Any:
    """Return another value between two bounds, as far away as allowed; None if there is none."""
    if not (is_number(old) and is_number(low) and is_number(high)):
        return None
    gap = 1 if strict else 0
    end = low + gap if old - low > high - old else high - gap
    new = end if whole else old + (end - old) / 2
    return new if low <= new <= high and new != old else None


def is_mask(seen: torch.Tensor) -> bool:
    """Return whether there are at most two values, one of them zero."""
    if seen.is_complex():
        return False
    values = seen.unique()
    return values.numel() <= 2 and bool((values == 0).any())


def is_triangular(seen: torch.Tensor) -> bool:
    """Return whether one triangle of a matrix is all zeros."""
    if seen.dim() < 2:
        return False
    return bool(torch.equal(seen, seen.tril()) or torch.equal(seen, seen.triu()))


def has_equal_rows(tensor: torch.Tensor) -> bool:
    """Return whether all rows have the same number of nonzero elements, as in a one-hot matrix."""
    if tensor.dim() < 2 or tensor.shape[-2] < 2:
        return False
    rows = tensor[(0,) * (tensor.dim() - 2)][:ROWS]
    counts = (rows != 0).sum(-1)
    return bool((counts == counts[0]).all())


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Return whether the matrix in the last two dimensions is symmetric."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    first = tensor[(0,) * (tensor.dim() - 2)]
    return bool(torch.equal(first, first.mT))
