"""References that need another chip, by their errors."""

from __future__ import annotations

import os
import re

import torch

FAMILIES = {
    (8, 9): "Ada",
    (9, 0): "Hopper",
    (10, 0): "Blackwell",
    (10, 3): "Blackwell Ultra",
    (12, 0): "Blackwell",
}
FIRST_WITH_FP4 = (10, 0)
BLOCK_SCALED = ("float4_e2m1fn_x2", "float8_e8m0fnu")
"""Words of references that compute in formats with block scales."""


def missing(error: str, source: str) -> str:
    """Return what a reference lacks on this device, as a sentence; empty if the error has another cause.

    Args:
        error: What it raised.
        source: Its text.
    """
    needed = named(error)
    if needed is None and any(word in source for word in BLOCK_SCALED):
        needed = FIRST_WITH_FP4
    there = capability()
    if needed is None or (there is not None and there >= needed):
        return ""
    family = f" ({FAMILIES[needed]})" if needed in FAMILIES else ""
    here = "there is no GPU here" if there is None else f"this device has {there[0]}.{there[1]}"
    return f"this reference needs compute capability {needed[0]}.{needed[1]}{family}; {here}"


def named(error: str) -> tuple[int, int] | None:
    """Return the least compute capability that an error of torch or Triton names, None without one."""
    numbers = re.findall(
        r"(?:compute capability|sm_?)[^\d]{0,12}(\d{1,2})[._]?(\d)(?!\d)", error, re.IGNORECASE
    )
    return min(((int(major), int(minor)) for major, minor in numbers), default=None)


def capability() -> tuple[int, int] | None:
    """Return the compute capability of this job's device, None without a GPU."""
    if os.environ.get("KERNELCUP_BACKEND") != "cuda" or not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return major, minor
