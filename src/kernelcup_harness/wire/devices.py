"""The device of this process, and memory that it accesses directly: copies become several times faster."""

from __future__ import annotations

import contextlib
import os

import torch

BUSY_S = 0.2
FEWEST_CORES = 4
MAPPED = 2
"""``cudaHostRegisterMapped``: kernels can use the address unchanged."""
LARGEST = 2 << 30
"""Larger memory is not pinned: it could not be used for anything else, and pinning it takes a second."""


def on_gpu() -> bool:
    """Return whether this process uses a real GPU."""
    return os.environ.get("KERNELCUP_BACKEND") == "cuda" and bool(torch.cuda.is_available())


def busy_s() -> float:
    """Return how many seconds a process polls for a frame before it sleeps, so that calls begin without delay.

    Only beside a GPU: on a processor, polling would take a core from the calls that are timed.
    """
    return BUSY_S if on_gpu() and len(os.sched_getaffinity(0)) >= FEWEST_CORES else 0.0


def pin(address: int, nbytes: int) -> bool:
    """Register memory of this process with the driver. Return whether that worked."""
    if not on_gpu() or not 0 < nbytes <= LARGEST:
        return False
    # The result is an enumeration of the runtime; 0 is success.
    if int(torch.cuda.cudart().cudaHostRegister(address, nbytes, MAPPED)) == 0:
        return True
    # The runtime keeps the error for the next launch, so launch something to clear it.
    with contextlib.suppress(RuntimeError):
        torch.zeros(1, device="cuda")
    return False


def unpin(address: int) -> None:
    """Undo :func:`pin`."""
    torch.cuda.cudart().cudaHostUnregister(address)
