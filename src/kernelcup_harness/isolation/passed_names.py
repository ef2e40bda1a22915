"""Environment variables that an operator passes to jobs, beside the usual ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

VARIABLE = "KERNELCUP_HARNESS_PASS_ENV"
"""Names them for the harness, separated by commas."""

FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
# These load code into every process, or are private to the harness and its processes.
NOBODYS = ("LD_", "GLIBC_TUNABLES", "PYTHON", "CUDA_INJECTION", "KERNELCUP", "POPCORN_")


def patterns(environ: Mapping[str, str]) -> list[str]:
    """Return the patterns that the environment names. Raise ``ValueError`` for one that may not pass."""
    found = [text for text in environ.get(VARIABLE, "").split(",") if text]
    for pattern in found:
        if (what := problem(pattern)) is not None:
            raise ValueError(f"{VARIABLE}: {pattern!r} {what}")
    return found


def problem(pattern: str) -> str | None:
    """Return the fault of a pattern, None if it is allowed."""
    if FORM.fullmatch(pattern) is None:
        return "is not the name of a variable, with or without a * at its end"
    begin, is_open = pattern.rstrip("*"), pattern.endswith("*")
    for name in NOBODYS:
        if begin.startswith(name) or (is_open and name.startswith(begin)):
            return f"would pass {name}..., which no job may get"
    return None


def passes(name: str, allowed: Iterable[str]) -> bool:
    """Return whether a variable matches one of the patterns."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in allowed
    )
