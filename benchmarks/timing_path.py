"""The modules between a captured call and its stored time, and a hash of them: stored lines carry it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

VARIABLE = "KERNELCUP_SOURCE"
"""Names the folder of other sources to measure, an older commit's or some without a remedy."""
SOURCE = Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parents[1] / "src").resolve()
HARNESS = SOURCE / "kernelcup_harness"
FOLDERS = ("timer", "window", "clocks", "clocks/replay")
ELSEWHERE = frozenset({"__init__", "reasons", "reference_time", "session"})
"""Modules of these folders through which no time goes."""
MORE = (
    "device/nvidia/driver",
    "device/nvidia/engine",
    "device/nvidia/export",
    "device/nvidia/graphs",
    "device/nvidia/hands",
    "device/nvidia/l2_cache",
    "device/nvidia/mapping",
    "device/nvidia/own_graphs",
    "device/nvidia/rebuild",
    "device/nvidia/start_gun",
    "device/nvidia/window",
    "contestant/window_calls",
    "protocol/estimates",
    "wire/channel",
    "wire/decode",
    "wire/values",
)


def modules() -> list[Path]:
    """Return their files."""
    found = [path for folder in FOLDERS for path in sorted((HARNESS / folder).glob("*.py"))]
    return [path for path in found if path.stem not in ELSEWHERE] + [HARNESS / f"{name}.py" for name in MORE]


def path_hash() -> str:
    """Return the SHA-256 (hex) of their names and contents."""
    digest = hashlib.sha256()
    for path in modules():
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
