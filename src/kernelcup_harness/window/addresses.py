"""The addresses of a window, which of them a parameter names, and what takes the place of foreign ones."""

from __future__ import annotations

from collections.abc import Callable

WINDOW = 0x6000_0000_0000
"""First address of a window: between a program's heap and its mapped files, so it is free in every process."""
WINDOW_BYTES = 640 << 30
"""Number of addresses, not of memory; more than the memory of any device."""
HEAP = WINDOW + (256 << 30)
"""First address of the memory for answers of calls on several GPUs."""
GRANULE = 2 << 20
"""Sizes of regions are multiples of this."""
HALF = 1 << 32
NOWHERE = range(WINDOW + WINDOW_BYTES - HALF, WINDOW + WINDOW_BYTES)
"""Addresses that are reserved and never mapped: a kernel that uses one faults."""


def granules(nbytes: int) -> int:
    """Round up to whole granules, at least one."""
    return max(1, -(-nbytes // GRANULE)) * GRANULE


def words_of(offset: int, value: bytes) -> list[tuple[int, int]]:
    """Return those aligned words of a parameter that may be addresses, each with its place in the parameter."""
    places = range(-offset % 8, len(value) - 7, 8)
    words = [(at, int.from_bytes(value[at : at + 8], "little")) for at in places]
    return [(at, word) for at, word in words if word >= HALF]


def disarmed(offset: int, value: bytes, is_foreign: Callable[[int], bool]) -> tuple[bytes, list[int]]:
    """Return a parameter whose foreign addresses lead nowhere, and their offsets among the kernel's parameters.

    Parameters have no types: such a word may be a left-over that the kernel never reads, or half of it a number.
    The lower half is kept, because next to a left-over it may be in use.
    """
    made, found = bytearray(value), list[int]()
    for at, word in words_of(offset, value):
        if is_foreign(word):
            made[at : at + 8] = (NOWHERE.start | word % HALF).to_bytes(8, "little")
            found.append(offset + at)
    return bytes(made), found
