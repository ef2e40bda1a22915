"""The environment of a run, which is needed to compare its times with others."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from kernelcup_harness.protocol import Backend


def environment(backend: Backend) -> dict[str, Any]:
    """Describe device, libraries and machine. Imports torch."""
    import torch

    found = {**machine(), "backend": backend.value, "torch": torch.__version__}
    if backend is Backend.EMULATED:
        found["device"] = emulated_name()
    if backend is Backend.CUDA:
        device = torch.cuda.get_device_properties(0)
        found["device"] = device.name
        found["cuda"] = torch.version.cuda
        found["capability"] = f"{device.major}.{device.minor}"
    return found


def machine() -> dict[str, Any]:
    """Describe the machine as far as possible without torch."""
    return {
        "device": processor_name(),
        "triton": version_of("triton"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def emulated_name() -> str:
    """Return the name of the emulated device."""
    return f"emulated on {processor_name()}"


def version_of(package: str) -> str | None:
    """Return the installed version of a package, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor_name() -> str:
    """Return the processor's model name."""
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or sys.platform
