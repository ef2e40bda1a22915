"""What every result says of where it comes from."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def machine_facts(tree: Path = ROOT) -> dict[str, Any]:
    """Return the commit of a checkout, and the machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=tree, capture_output=True, text=True, check=False
    ).stdout.strip()
    changed = subprocess.run(
        ["git", "status", "--porcelain", "src"], cwd=tree, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "commit": commit + ("+changes" if changed else ""),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
    }


def publish(name: str, result: dict[str, Any]) -> None:
    """Print the figures of a result beside those that are stored under its name, and store it instead."""
    place = ROOT / "benchmarks/results" / name
    stored = dict(figures(json.loads(place.read_text(encoding="utf-8")))) if place.exists() else {}
    for key, value in figures(result):
        print(f"{key:50} {value:>14g}   stored: {stored.get(key, math.nan):g}")
    place.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def figures(result: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number of a result with its keys, without those of the machine."""
    if isinstance(result, dict):
        for name, value in result.items():
            yield from figures(value, f"{key} {name}".strip()) if name != "machine" else ()
    elif isinstance(result, int | float):
        yield key, float(result)


def processor_s(pid: int) -> float:
    """Return the processor time, user and system, that a process has had. Raise ``OSError`` if there is none."""
    return time.clock_gettime((~pid << 3) | 2)  # what the system calls the clock of a process


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of some values, 0 if there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]
