"""The tools that a submission is written with, and its length: shown beside its time, without judgement.

Only words in the text count: nothing is parsed or run, so a text that is made to mislead can mislead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
_SIGNS = tuple((name, re.compile(pattern, re.MULTILINE)) for name, pattern in SIGNS)
_COMMENTS = ("#", "//")
_DIRECTIVES = ("#include", "#define", "#pragma", "#if", "#else", "#end", "#undef")


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeOf:
    """The tools and the length of a text."""

    names: tuple[str, ...]
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


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and (not text.startswith(_COMMENTS) or text.startswith(_DIRECTIVES))
