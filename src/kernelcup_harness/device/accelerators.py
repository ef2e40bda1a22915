"""Finds the kind of device of a job, by its backend."""

from __future__ import annotations

import os

from kernelcup_harness.device.port import Accelerator
from kernelcup_harness.protocol import Backend


def of(backend: Backend) -> Accelerator:
    """Return the kind of device of a backend."""
    if backend is Backend.CUDA:
        from kernelcup_harness.device.nvidia.accelerator import Nvidia

        return Nvidia()
    if backend is Backend.EMULATED:
        from kernelcup_harness.device.emulated.accelerator import Emulated

        return Emulated()
    from kernelcup_harness.device.cpu.accelerator import Cpu

    return Cpu()


def here() -> Accelerator:
    """Return the kind that this process was started for."""
    return of(Backend(os.environ.get("KERNELCUP_BACKEND", Backend.CPU)))
