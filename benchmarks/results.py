"""What every result says of where it comes from."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def machine_facts() -> dict[str, Any]:
    """Return commit and machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    changed = subprocess.run(
        ["git", "status", "--porcelain", "src"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "commit": commit + ("+changes" if changed else ""),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
    }


def processor_s(pid: int) -> float:
    """Return the processor time, user and system, that a process has had. Raise ``OSError`` if there is none."""
    return time.clock_gettime((~pid << 3) | 2)  # what the system calls the clock of a process


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of some values, 0 if there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]
