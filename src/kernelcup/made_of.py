"""What a submission is written with, and how long it is: told beside its time, and no judgement.

By words in the text alone: nothing is parsed or run, so a text that is made to mislead misleads.
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
    ("CUTLASS", r"#include\s*[<\"]cut(?:lass|e)/"),
    ("HIP", r"#include\s*[<\"]hip/|\bhipLaunchKernelGGL\b"),
    ("CUDA", r"\b__global__\b"),
    ("PTX", r"\basm\s+(?:volatile\s*)?\(|\basm\s*\("),
    ("torch.compile", r"\btorch\.compile\b"),
)
"""Names and the words that tell of them; a compiled pattern would not be easier to read."""

IMPLIED = {"Gluon": {"Triton"}, "HIP": {"CUDA"}}
"""What is left out beside something that includes it."""

PLAIN = "PyTorch"
_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
_SIGNS = tuple((name, re.compile(pattern, re.MULTILINE)) for name, pattern in SIGNS)
_COMMENTS = ("#", "//")
_DIRECTIVES = ("#include", "#define", "#pragma", "#if", "#else", "#end", "#undef")


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeOf:
    """What a text is written with."""

    names: tuple[str, ...]
    lines: int
    """Without empty ones and those that hold only a comment."""


def made_of(code: str) -> MadeOf:
    """Return what a submission is written with."""
    found = [name for name, sign in _SIGNS if sign.search(code)]
    left_out: set[str] = set().union(*(IMPLIED.get(name, set()) for name in found))
    names = [name for name in found if name not in left_out]
    if not names and _TORCH.search(code):
        names = [PLAIN]
    return MadeOf(names=tuple(names), lines=sum(map(_is_code, code.splitlines())))


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and (not text.startswith(_COMMENTS) or text.startswith(_DIRECTIVES))
