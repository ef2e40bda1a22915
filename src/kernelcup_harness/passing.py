"""Which variables of the environment an operator lets through to a job, beside the usual ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

VARIABLE = "KERNELCUP_HARNESS_PASS_ENV"
"""Names them for the harness, between commas."""

FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
# What these say is loaded into every process, or is between the harness and its processes.
NOBODYS = ("LD_", "GLIBC_TUNABLES", "PYTHON", "CUDA_INJECTION", "KERNELCUP", "POPCORN_")


def patterns(environ: Mapping[str, str]) -> list[str]:
    """Return what the environment names. Raise ``ValueError`` for what may not pass."""
    found = [text for text in environ.get(VARIABLE, "").split(",") if text]
    for pattern in found:
        if (what := problem(pattern)) is not None:
            raise ValueError(f"{VARIABLE}: {pattern!r} {what}")
    return found


def problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern, None if nothing is."""
    if FORM.fullmatch(pattern) is None:
        return "is no name of a variable, with or without a * at its end"
    begin, is_open = pattern.rstrip("*"), pattern.endswith("*")
    for name in NOBODYS:
        if begin.startswith(name) or (is_open and name.startswith(begin)):
            return f"would let through {name}..., which no job may be given"
    return None


def passes(name: str, allowed: Iterable[str]) -> bool:
    """Tell whether a variable fits one of the patterns."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in allowed
    )
