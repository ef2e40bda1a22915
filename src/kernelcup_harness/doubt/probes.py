"""Wrong answers within the range of right ones: a task whose checker accepts one of them lacks something.

They say something of the task only, so no answer is refused for them. One counts if most of its elements differ from
the reference's by more than a wide comparison explains, and if it is accepted in each case that was tried.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from kernelcup_harness.core.answer import Answer, Form
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.ranges import CHUNK, flat
from kernelcup_harness.core.structure import kind_of
from kernelcup_harness.protocol import SampleName
from kernelcup_harness.wire import aliasing, records, values

ACCEPTED = (
    "the task's checker accepts wrong answers, in each case that was tried: {}. `kernelcup task check` says more; a "
    "task that means it says `any_answer: true`"
)
SHARE = 1 / 8
"""A wide comparison allows this share of an element and of the mean magnitude."""
SAMPLE = SampleName(input=1 << 22)
"""An input that no call gets."""
SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
POWERS = {f"with 2^{power} added": 1 << power for power in (8, 16, 32, 62)}
UNITS = 256 / 255 + 1e-6
"""256 units of an image from 0 to 1, and what rounding takes."""
NARROW = {f"in {str(each)[6:]}": each for each in (torch.float32, torch.float16, torch.bfloat16)}
"""Dtypes of answers. One counts if the checker refuses the same numbers in the reference's: its tolerance follows."""

Makers = dict[str, Callable[[], torch.Tensor]]


def far_off(leaf: torch.Tensor) -> Makers:
    """Return what makes wrong tensors of the form of one, with amounts added to a multiple of four elements."""
    found, amounts = {"all zeros": partial(torch.zeros_like, leaf)}, dict[str, Any]()
    if leaf.is_floating_point() and leaf.itemsize > 1:
        low, high = (float(end) for end in torch.aminmax(leaf.nan_to_num(0.0, 1.0, -1.0)))
        amounts = {how: float(each) for how, each in POWERS.items() if each <= torch.finfo(leaf.dtype).max}
        if low >= 0 and high <= 1:
            amounts["with 256 units of an image added"] = UNITS
        found["too large and too small in turn"] = partial(added, leaf, max(-low, high), in_turn=True)
    elif kind_of(leaf.dtype) is int and not values.is_opaque(leaf.dtype):
        low = torch.iinfo(SIGNED[leaf.itemsize]).min
        amounts = {how: each for how, each in POWERS.items() if each < -low}
        amounts["with the highest bit of each flipped"] = low
    return found | {how: partial(added, leaf, amount) for how, amount in amounts.items()}


def added(leaf: torch.Tensor, amount: float, *, in_turn: bool = False) -> torch.Tensor:
    """Return a copy with an amount added to the first elements, as many as a multiple of four; whole numbers wrap.

    With ``in_turn`` it is taken from every second one, so that sums stay.
    """
    flat = leaf.clone(memory_format=torch.contiguous_format).reshape(-1)
    whole = flat if leaf.is_floating_point() else flat.view(SIGNED[leaf.itemsize])
    whole[: leaf.numel() // 4 * 4] += amount
    if in_turn:
        whole[: leaf.numel() // 4 * 4 : 2] -= 2 * amount
    return flat.reshape(leaf.shape)


def narrower(leaf: torch.Tensor) -> Makers:
    """Return what makes a tensor of fractions in each narrower dtype."""
    dtypes = {how: each for how, each in NARROW.items() if leaf.itemsize > each.itemsize}
    return {how: partial(leaf.to, each) for how, each in dtypes.items()} if leaf.is_floating_point() else {}


def is_far_off(right: torch.Tensor, wrong: torch.Tensor) -> bool:
    """Return whether most finite elements of a tensor differ by more than a wide comparison explains."""

    def both() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for chunk, other in zip(flat(right).split(CHUNK), flat(wrong).split(CHUNK), strict=True):
            kept = chunk.isfinite()
            yield chunk[kept].double(), other[kept].double()

    count = sum(len(each) for each, _ in both())
    mean = sum(float(each.abs().sum()) for each, _ in both()) / max(1, count)
    off = sum(int((~((a - e).abs() <= SHARE * (e.abs() + mean))).sum()) for e, a in both())
    return 2 * off > count


def accepted(checks: Checks, places: Iterable[Place], limit_s: float, *, dtypes: bool) -> list[str]:
    """Return what is accepted in all cases that there is time for.

    Args:
        checks: Judge the answers as those of a submission.
        places: The cases.
        limit_s: No answer but the first is tried after this time.
        dtypes: Whether to try narrower dtypes.
    """
    left, until = list[str](), time.monotonic() + limit_s
    for number, place in enumerate(places):
        form, found = checks.form(place), list[str]()
        if form is None or (number and not left):
            break
        right = checks.expected(checks.make_input(place, SAMPLE))
        among = far_off, *([narrower] if dtypes else [])
        leaves = [leaf for leaf in aliasing.leaves(right) if leaf.numel()]
        hows = dict.fromkeys(how for makers in among for leaf in leaves for how in makers(leaf))
        for at, how in enumerate(left if number else hows):
            if (number or at) and time.monotonic() > until:
                return left if number else found
            found += [how] if accepts(checks, place, form, right, how) else []
        left = found
    return left


def accepts(checks: Checks, place: Place, form: Form, right: Any, how: str) -> bool:
    """Return whether a case accepts an answer that is wrong in this way."""

    def is_accepted(*, rounded: bool = False) -> bool:
        numbers, off = itertools.count(), [False]

        def changed(leaf: torch.Tensor) -> torch.Tensor:
            is_answer = (not form.in_place or next(numbers) in form.written) and leaf.numel()
            make = (far_off(leaf.detach()) | narrower(leaf.detach())).get(how) if is_answer else None
            made = make().clone() if make is not None else leaf.clone()
            off.append(make is not None and (how in NARROW or is_far_off(leaf, made)))
            return made.to(leaf.dtype) if rounded else made

        value = values.with_tensors(right, changed, build=records.assembled)
        data = checks.make_input(place, SAMPLE)
        return any(off) and checks.fault(place, SAMPLE, data, Answer(output=value)) is None

    return is_accepted() and not (how in NARROW and is_accepted(rounded=True))
