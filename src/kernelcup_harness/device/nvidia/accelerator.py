"""The port to NVIDIA's GPUs. AMD's go by the same backend as far as PyTorch for ROCm does."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernelcup_harness.device.memory import DeviceMemory
from kernelcup_harness.device.nvidia import driver
from kernelcup_harness.device.nvidia import nodes as device_nodes
from kernelcup_harness.device.port import Captured, Gauge
from kernelcup_harness.isolation import sandbox
from kernelcup_harness.isolation.layout import DeviceNodes
from kernelcup_harness.isolation.sizes import RANKS

CUDA_TRIAL = """
import ctypes
library, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
code = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
raise SystemExit(f"CUDA error {code}, {count.value} devices" if code or not count.value else 0)
"""
"""Fails unless the CUDA driver starts and finds a device."""


class Nvidia:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` names, or all of this machine."""

    def is_here(self) -> bool:
        """Return whether the machine has device nodes of a GPU."""
        return Path("/dev/kfd").exists() or any(Path("/dev").glob("nvidia[0-9]*"))

    def sandbox_trouble(self) -> str:
        """Return why processes in this machine's sandbox cannot use its GPUs; empty if they can, or it has none."""
        return sandbox_trouble()

    def nodes(self, environ: Mapping[str, str]) -> DeviceNodes:
        """Return the nodes of the GPUs that ``environ`` names."""
        return device_nodes.nodes(environ)

    def start(self) -> None:
        """Initialize the driver, unless this process is to be forked for several GPUs: each part does it itself."""
        if not os.environ.get(RANKS):
            driver.initialize()

    def describe(self) -> dict[str, Any]:
        """Return the name of the first GPU, and the version and capability of CUDA."""
        import torch

        device = torch.cuda.get_device_properties(0)
        return {
            "device": device.name,
            "cuda": torch.version.cuda,
            "capability": f"{device.major}.{device.minor}",
        }

    def describe_without_torch(self) -> dict[str, Any]:
        """Return the name that the driver reports, and the state."""
        gpu = self.state()
        return {"gpu": gpu} | ({"device": gpu["name"]} if "name" in gpu else {})

    def state(self) -> dict[str, str]:
        """Return the state of the first GPU that this process may use; empty without a driver."""
        from kernelcup_harness.device.nvidia import nvml

        return nvml.gpu_state()

    def gauge(self) -> Gauge:
        """Return the gauge of this process's first GPU."""
        from kernelcup_harness.device.nvidia import nvml
        from kernelcup_harness.wire import devices

        return nvml.gauge(gpu=devices.on_gpu())

    def memory(self) -> DeviceMemory:
        """Return the memory of the first GPU."""
        from kernelcup_harness.device.nvidia.memory import GpuMemory

        return GpuMemory()

    def captured(self, call: Callable[[Any], Any], make: Callable[[], Any]) -> Captured:
        """Return a call on a new input as a CUDA graph that was launched once."""
        from kernelcup_harness.device.nvidia import call_graphs

        return call_graphs.captured(call, make)


@functools.cache
def sandbox_trouble() -> str:
    """Try whether CUDA starts in the sandbox.

    Only Landlock is tried: its rules would have to name all that the driver uses.
    """
    if sandbox.kind() is not sandbox.Kind.LANDLOCK or not Path("/dev/nvidiactl").exists():
        return ""
    if os.getuid() != 0:
        return "as another user than root, Landlock gives a job with a GPU the runner's files in /proc to write to"
    argv = [sys.executable, "-I", "-S", "-c", CUDA_TRIAL]
    reads_all = not sandbox.python_runs(reads_all=False)
    shown = device_nodes.nodes(os.environ)
    if sandbox.runs(sandbox.Kind.LANDLOCK, argv, reads_all=reads_all, devices=shown):
        return ""
    return "CUDA does not start under Landlock, the sandbox in use here: apt-get install bubblewrap"
