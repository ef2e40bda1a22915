"""What a submission is made of: whose kernels ran, or else the tools that its text names, and its length.

Of a text only words count: nothing is parsed or run, so a text that is made to mislead can mislead.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelcup.reporting.bottlenecks import explain
from kernelcup_harness.protocol import RanKernel

SIGNS: tuple[tuple[str, str], ...] = (
    ("Triton", r"^[ \t]*(?:import|from)[ \t]+triton\b"),
    ("Gluon", r"\btriton\.experimental(?:\.|\s+import\s+)gluon\b"),
    ("CuTe DSL", r"\bcutlass(?:\.|\s+import\s+)cute\b"),
    ("TileLang", r"^[ \t]*(?:import|from)[ \t]+tilelang\b"),
    ("Helion", r"^[ \t]*(?:import|from)[ \t]+helion\b"),
    ("Numba", r"^[ \t]*(?:import|from)[ \t]+numba\b"),
    ("CuPy", r"^[ \t]*(?:import|from)[ \t]+cupy\b"),
    ("CUDA C++", r"\bkc_args\b"),
    ("CUTLASS", r"#include\s*[<\"]cut(?:lass|e)/"),
    ("HIP", r"#include\s*[<\"]hip/|\bhipLaunchKernelGGL\b"),
    ("CUDA", r"\b__global__\b"),
    ("PTX", r"\basm\s+(?:volatile\s*)?\(|\basm\s*\("),
    ("torch.compile", r"\btorch\.compile\b"),
)
"""Names and the patterns that identify them; compiled patterns would not be easier to read."""

IMPLIED = {"Gluon": {"Triton"}, "HIP": {"CUDA"}, "CUDA C++": {"CUDA"}}
"""Tools that are left out beside a tool that includes them."""

PLAIN = "PyTorch"
OWN = "own kernels"
LEAST_SHARE = 0.005
"""Origins with less of the time are not named."""
MOST_NAMED = 3
"""Kernels that a line names."""
_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
_SIGNS = tuple((name, re.compile(pattern, re.MULTILINE)) for name, pattern in SIGNS)
_COMMENTS = ("#", "//")
_DIRECTIVES = ("#include", "#define", "#pragma", "#if", "#else", "#end", "#undef")


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeOf:
    """The tools and the length of a text."""

    names: tuple[str, ...]
    """Tools, or whose kernels ran with their shares of the time."""
    lines: int
    """The number of lines, without empty ones and those with only a comment."""


def made_of(code: str) -> MadeOf:
    """Return the tools and the length of a submission."""
    found = [name for name, sign in _SIGNS if sign.search(code)]
    left_out: set[str] = set().union(*(IMPLIED.get(name, set()) for name in found))
    names = [name for name in found if name not in left_out]
    if not names and _TORCH.search(code):
        names = [PLAIN]
    return MadeOf(names=tuple(names), lines=sum(map(_is_code, code.splitlines())))


def by_time(made: MadeOf, ran: Sequence[RanKernel]) -> MadeOf:
    """Return what a submission is made of by the time of the kernels that ran, if that is known."""
    shares = origins(ran)
    if not shares:
        return made
    return dataclasses.replace(made, names=tuple(f"{name} {share:.0%}" for name, share in shares))


def origins(ran: Sequence[RanKernel]) -> list[tuple[str, float]]:
    """Return whose kernels took which share of the time, the largest first; nothing unless all of it is known."""
    found: dict[str, float] = {}
    for each in ran:
        if each.share is None or each.origin is None:
            return []
        name = each.origin or OWN
        found[name] = found.get(name, 0.0) + each.share
    return sorted(
        ((name, share) for name, share in found.items() if share >= LEAST_SHARE), key=lambda pair: -pair[1]
    )


def ran_line(ran: Sequence[RanKernel]) -> str:
    """Return the kernels of one timed call in a line: whose they are, and the longest ones."""
    whose = ", ".join(f"{name} {share:.0%}" for name, share in origins(ran))
    longest = sorted(ran, key=lambda each: -(each.share or 0.0))[:MOST_NAMED]
    names = [
        f"{explain.demangled(each.name)}{'' if each.share is None else f' {each.share:.0%}'}"
        for each in longest
    ]
    more = f", and {len(ran) - len(longest)} more" if len(ran) > len(longest) else ""
    return f"ran: {whose}{whose and '; '}{', '.join(names)}{more}"


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and (not text.startswith(_COMMENTS) or text.startswith(_DIRECTIVES))
