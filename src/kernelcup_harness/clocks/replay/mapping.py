"""The judge's own mapping of the window: it creates the regions, writes inputs and reads answers through them."""

from __future__ import annotations

from typing import Protocol

import torch

from kernelcup_harness.core.call import PLACES
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.protocol import SampleName
from kernelcup_harness.window import layout
from kernelcup_harness.window.addresses import granules
from kernelcup_harness.window.layout import HIDDEN_FROM, CannotLie, Layout
from kernelcup_harness.window.reasons import NotReplayed, WhyNot

HEAP_SHARE, INPUTS_SHARE = 0.3, 0.15
"""Shares of the device's memory: for a contestant's tensors, and for all inputs that lie in the window at once. The
judge's own part is four tenths, and contexts need some as well."""
LEAST_HEAP = 1 << 30


class Mapping(Protocol):
    """Device memory at addresses of the window, or its stand-in in tests."""

    device: str
    """Its name in :mod:`kernelcup_harness.wire.values`."""

    def total_bytes(self) -> int:
        """Return the bytes of device memory for this job."""

    def create(self, address: int, nbytes: int) -> int:
        """Create a region; return a descriptor that the caller owns. Raise ``NotReplayed``."""

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Return memory as a tensor of uint8 with shape (nbytes,); it does not own it."""

    def settle(self) -> None:
        """Wait until all writes are done."""


def heap_sizes(total_bytes: int) -> list[int]:
    """Return possible sizes of a contestant's heap, largest first: a smaller one is used if memory is short."""
    wanted = granules(int(total_bytes * HEAP_SHARE))
    sizes = [wanted]
    while sizes[-1] // 2 >= LEAST_HEAP:
        sizes.append(granules(sizes[-1] // 2))
    return sizes


def heap_of(mapping: Mapping, address: int) -> tuple[int, int]:
    """Create a contestant's heap, a smaller one if memory is short; return its size and a descriptor."""
    sizes = heap_sizes(mapping.total_bytes())
    for nbytes in sizes[:-1]:
        try:
            return nbytes, mapping.create(address, nbytes)
        except NotReplayed:
            continue
    return sizes[-1], mapping.create(address, sizes[-1])


def laid_out(checks: Checks, place: Place, mapping: Mapping, number: int, *, hidden: bool) -> Layout:
    """Return the layout of a case's inputs, by the input with a given number. Raise :class:`NotReplayed`."""
    data = checks.make_input(place, SampleName(input=number))
    nbytes = max(1, layout.input_bytes(data))
    places = min(PLACES, int(INPUTS_SHARE * mapping.total_bytes()) // nbytes)
    if not places:
        raise NotReplayed(WhyNot.MEMORY, "" if hidden else f"{nbytes} bytes of input")
    away = HIDDEN_FROM if hidden else 0
    try:
        return Layout(data, places=places, writable=checks.writable(place), device=mapping.device, away=away)
    except CannotLie as error:
        raise NotReplayed(WhyNot.HOST_INPUT) from error
