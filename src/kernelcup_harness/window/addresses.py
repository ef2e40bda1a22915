"""Which words of a parameter are addresses of device memory."""

from __future__ import annotations

import ctypes

from kernelcup_harness.window.driver import Driver, u64


def words_of(offset: int, value: bytes) -> list[int]:
    """Return those aligned words of a parameter that may be addresses."""
    begin = -offset % 8
    words = [int.from_bytes(value[at : at + 8], "little") for at in range(begin, len(value) - 7, 8)]
    return [word for word in words if word >= 1 << 32]


def is_memory(driver: Driver, word: int) -> bool:
    """Return whether the driver knows an address as device or host memory of this context."""
    kind = ctypes.c_uint()
    return not driver.code("cuPointerGetAttribute", ctypes.byref(kind), 2, u64(word)) and kind.value != 0
