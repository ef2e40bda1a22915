"""NVIDIA's profiling library, CUPTI."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import sys
from pathlib import Path
from typing import Any

KNOWN_PLACES = (
    "nvidia/*/lib/libcupti.so.*",
    "nvidia/cuda_cupti/lib/libcupti.so.*",
)
SYSTEM_PLACES = ("libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so")


def library() -> Any:
    """Return CUPTI: PyTorch's own if it ships one, else the system's. Raise ``OSError`` if there is none."""
    places = [
        path for folder in sys.path for known in KNOWN_PLACES for path in glob.glob(str(Path(folder) / known))
    ]
    for place in (*sorted(places, reverse=True), *SYSTEM_PLACES):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(place)
    raise OSError("libcupti was not found")
