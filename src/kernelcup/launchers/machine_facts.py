"""What is known of the machine that this process runs on."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any

from kernelcup.launchers.gpu_health.probe import gpus_here

DRIVER = Path("/proc/driver/nvidia/version")


@functools.cache
def facts_here(driver: Path = DRIVER) -> dict[str, Any]:
    """Return the machine's GPUs by model, its driver, its cores and its memory in GiB."""
    try:
        text = driver.read_text()
    except OSError:
        text = ""
    version = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "gpus": [model for _, model in gpus_here()],
        "driver": version[0] if version else "",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / (1 << 30)),
    }
