"""The machine of a run, which is needed to compare its times with others. Imports no torch."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any


def machine() -> dict[str, Any]:
    """Describe the machine."""
    return {
        "device": processor_name(),
        "triton": version_of("triton"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


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
