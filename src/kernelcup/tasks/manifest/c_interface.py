"""Leaderboards in C++ and CUDA C++: which functions a file defines, and which flags of the compiler a task may give."""

from __future__ import annotations

import re
from collections.abc import Mapping

REFERENCES = ("reference.cu", "reference.cuh", "reference.cpp")
"""The names of the file with the functions that the standard harness calls."""
ENDINGS = (".cu", ".cuh", ".cpp", ".h", ".hpp")
SIGNATURES = {
    "generate_input": (
        "int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context)"
    ),
    "ref_kernel": "int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context)",
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
MAIN = re.compile(r"\bmain\s*\(")

MATHS = (
    "fast-math|math-errno|unroll|inline|openmp|strict-aliasing|finite-math|associative-math|tree|vectorize"
)
FLAG = re.compile(
    r"-O[0-3s]|-O3|-g|-G|-lineinfo|--generate-line-info|-w|-W(?![alp],)[a-z0-9+=-]*|-[DU]\w+(=.*)?|-std=[a-z0-9+]+"
    rf"|-f(no-)?({MATHS})[a-z0-9=-]*|-m(no-)?(avx|fma|sse|arch=|tune=|f16c)[a-z0-9._-]*"
    r"|--?use_fast_math|-{1,2}(ftz|prec-div|prec-sqrt|fmad)=(true|false)"
    r"|-{1,2}(maxrregcount|split-compile|threads|default-stream|diag-suppress|relocatable-device-code|rdc)=[\w,-]+"
    r"|-{1,2}(extended-lambda|expt-extended-lambda|expt-relaxed-constexpr|restrict|dlto|extra-device-vectorization)"
    r"|-(Xptxas|Xnvlink|Xcudafe)=[\w=,.-]+|--ptxas-options=[\w=,.-]+"
)
"""What a task may ask of the compiler; whatever reads files, loads code or names outputs is not among it."""
PASSED_ON = re.compile(r"(?:-Xcompiler|--compiler-options)=(.+)")
WHY = {
    "-fplugin": "loads code into the compiler",
    "-specs": "replaces the compiler's commands",
    "-wrapper": "runs another program",
    "-ccbin": "runs another program",
    "--compiler-bindir": "runs another program",
    "-B": "runs another program",
    "-Wl,": "passes options to the linker; name the library in `libraries`",
    "-l": "links a file of the machine; name the library in `libraries`",
    "-L": "names a folder of the machine; name the library in `libraries`",
    "-I": "belongs into `include_dirs`",
    "-include": "reads a file; include it in the source",
    "-isystem": "belongs into `include_dirs`",
    "-o": "names the output, which KernelCup does",
    "-arch": "KernelCup compiles for the device that judges",
    "-gencode": "KernelCup compiles for the device that judges",
    "--gpu-architecture": "KernelCup compiles for the device that judges",
    "--options-file": "reads a file",
    "-optf": "reads a file",
}


def without_comments(text: str) -> str:
    return COMMENT.sub(" ", text)


def has_interface(text: str) -> bool:
    """Return whether a file is written for the C interface of ``kernelcup.h``."""
    return re.search(r"\bkc_args\b", without_comments(text)) is not None


def missing(text: str) -> list[str]:
    """Return the signatures of the functions that a reference lacks."""
    plain = without_comments(text)
    return [whole for name, whole in SIGNATURES.items() if re.search(rf"\b{name}\s*\(", plain) is None]


def reference_of(sources: Mapping[str, str]) -> str | None:
    """Return the name of the file with the task's functions by the C interface, None if there is none."""
    return next((name for name in REFERENCES if has_interface(sources.get(name, ""))), None)


def program_of(names: list[str], sources: Mapping[str, str]) -> str | None:
    """Return the one of some files that defines ``main``, None if none does."""
    return next((name for name in names if MAIN.search(without_comments(sources.get(name, "")))), None)


def included(text: str) -> set[str]:
    """Return the names in quotes that a file includes."""
    return set(INCLUDE.findall(text))


def flag_fault(flag: str) -> str | None:
    """Return why a task may not give a flag to the compiler, None if it may."""
    passed = PASSED_ON.fullmatch(flag)
    inner = passed[1].split(",") if passed else [flag]
    for each in inner:
        if FLAG.fullmatch(each) is None:
            why = next((text for start, text in WHY.items() if each.startswith(start)), None)
            return f"`{each}` {why}" if why else f"`{each}` is not among the flags that a task may give"
    return None
