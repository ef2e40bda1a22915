"""The device of this process."""

from __future__ import annotations

import os

import torch

BUSY_S = 0.2
FEWEST_CORES = 4


def on_gpu() -> bool:
    """Return whether this process uses a real GPU."""
    return os.environ.get("KERNELCUP_BACKEND") == "cuda" and bool(torch.cuda.is_available())


def busy_s() -> float:
    """Return how many seconds a process polls for a frame before it sleeps, so that calls begin without delay.

    Only beside a GPU: on a processor, polling would take a core from the calls that are timed.
    """
    return BUSY_S if on_gpu() and len(os.sched_getaffinity(0)) >= FEWEST_CORES else 0.0
