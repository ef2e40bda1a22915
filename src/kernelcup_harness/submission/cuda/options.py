"""What a task asks of the compiler, handed from the runner to where compilers run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from kernelcup_harness.protocol import CudaBuild, from_json, to_json

OPTIONS = "KERNELCUP_CUDA_OPTIONS"
"""A :class:`CudaBuild` as JSON, for a submission as well as for a leaderboard."""
LEADERBOARD = "KERNELCUP_CUDA_LEADERBOARD"
"""Set while a leaderboard's own files are compiled: the defines that say so."""
PROGRAM = "KERNELCUP_CUDA_PROGRAM"
"""Set while a harness of the task's own is compiled, which is a program."""
TO_HOST_COMPILER = (
    "-O",
    "-f",
    "-W",
    "-std",
    "-g",
    "-march",
    "-mtune",
    "-mavx",
    "-mfma",
    "-msse",
    "-mno-",
    "-D",
    "-U",
)
"""The flags that g++ gets too, by their beginnings; others are for nvcc."""


def of_submission(build: CudaBuild) -> dict[str, str]:
    """Return the variables for compiling a submission."""
    plain = dataclasses.replace(build, sources=[], rtol=None, atol=None)
    return {} if plain == CudaBuild() else {OPTIONS: json.dumps(to_json(plain), sort_keys=True)}


def of_leaderboard(build: CudaBuild, text: str) -> dict[str, str]:
    """Return the variables for compiling a leaderboard's own file, with this text, into the judge's library."""
    named = ["KC_LEADERBOARD", *(["KC_CHECKS"] if "check_implementation" in text else [])]
    return {OPTIONS: json.dumps(to_json(build), sort_keys=True), LEADERBOARD: " ".join(named)}


def of_program(build: CudaBuild) -> dict[str, str]:
    """Return the variables for compiling a harness of the task's own together with a submission."""
    return {OPTIONS: json.dumps(to_json(build), sort_keys=True), PROGRAM: "1"}


def read(environ: Mapping[str, str]) -> CudaBuild:
    """Return what the variables ask for."""
    text = environ.get(OPTIONS)
    return from_json(CudaBuild, json.loads(text)) if text else CudaBuild()


def arguments(environ: Mapping[str, str], *, nvcc: bool) -> list[str]:
    """Return the compiler's arguments for a task's wishes; g++ gets those that it knows."""
    wanted = read(environ)
    flags = [each for each in wanted.compile_flags if nvcc or each.startswith(TO_HOST_COMPILER)]
    if not nvcc:
        passed = [each.partition("=")[2] for each in wanted.compile_flags if each.startswith("-Xcompiler=")]
        flags += [each for flag in passed for each in flag.split(",")]
    defines = [f"-D{name}={value}" if value else f"-D{name}" for name, value in wanted.defines.items()]
    return [*flags, *defines, *(f"-I{folder}" for folder in wanted.include_dirs)]
