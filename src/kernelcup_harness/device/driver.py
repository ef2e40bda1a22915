"""The CUDA driver, initialized by a process that waits for its job. Imports no torch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def initialize(load: Callable[[str], Any] = ctypes.CDLL) -> bool:
    """Initialize the driver, which takes 0.2 s; return whether it is there and works. Makes no context."""
    try:
        return int(load("libcuda.so.1").cuInit(0)) == 0
    except (OSError, AttributeError):
        return False
