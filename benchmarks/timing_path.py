"""The modules between a captured call and its stored time, and a hash of them: stored lines carry it."""

from __future__ import annotations

import hashlib
from pathlib import Path

HARNESS = Path(__file__).resolve().parents[1] / "src/kernelcup_harness"
ELSEWHERE = frozenset({"__init__", "session", "reasons", "finals"})
"""Modules of ``replay`` through which no time goes."""
MORE = ("estimates", "schedule", "timing", "wire", "frames")


def modules() -> list[Path]:
    """Return their files."""
    replay = [path for path in sorted((HARNESS / "replay").glob("*.py")) if path.stem not in ELSEWHERE]
    return [*replay, *(HARNESS / f"{name}.py" for name in MORE)]


def path_hash() -> str:
    """Return the SHA-256 (hex) of their names and contents."""
    digest = hashlib.sha256()
    for path in modules():
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
