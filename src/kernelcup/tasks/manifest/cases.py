"""Check test and benchmark cases: their values, and whether ``generate_input`` accepts them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.python_source import Signature
from kernelcup.tasks.manifest.schema import TaskShape
from kernelcup.tasks.manifest.validation import did_you_mean, kind_of
from kernelcup.tasks.manifest.work import KEY as WORK
from kernelcup.tasks.manifest.work import TIMED, is_override, parameters_of
from kernelcup.tasks.manifest.yaml_text import Path
from kernelcup_harness.protocol import Parameters

SEED = "seed"
CASE_LISTS = ("tests", "benchmarks", "hidden_tests", "hidden_benchmarks")


def read_cases(shape: TaskShape, findings: Findings) -> dict[str, list[Parameters]]:
    """Return the well-formed cases of all four lists; add problems for the others."""
    return {key: _read_list(key, getattr(shape, key), shape.multi_gpu, findings) for key in CASE_LISTS}


def check_calls(
    shape: TaskShape, generate_input: Signature, findings: Findings, filled: Iterable[str]
) -> None:
    """Add a problem for each case that does not fit ``generate_input``; the harness adds the parameters ``filled``."""
    for key in CASE_LISTS:
        for index, case in enumerate(getattr(shape, key)):
            if isinstance(case, dict):
                _check_call((key, index), parameters_of(case), generate_input, findings, set(filled))


def _read_list(key: str, cases: list[object], multi_gpu: bool, findings: Findings) -> list[Parameters]:
    good = []
    for index, case in enumerate(cases):
        path = (key, index)
        if not isinstance(case, dict):
            findings.at_value(path, f"must be a mapping such as {{size: 128, seed: 1}}, not {kind_of(case)}")
            continue
        before = len(findings.problems)
        if is_override(WORK, case.get(WORK)) and key not in TIMED:
            findings.at_key((*path, WORK), f"belongs into {' and '.join(TIMED)}: nothing else is timed")
        case = parameters_of(case)
        for name, value in case.items():
            _check_value((*path, name), value, findings)
        if multi_gpu:
            _check_world_size(path, case, findings)
        if len(findings.problems) == before:
            good.append(case)
    return good


def _check_value(path: Path, value: object, findings: Findings) -> None:
    if not str(path[-1]).isidentifier():
        findings.at_key(path, "must be an identifier, since it names a parameter of `generate_input`")
    if path[-1] == SEED and type(value) is not int:
        if path not in findings.document.broken:
            findings.at_value(path, f"must be a whole number, not {kind_of(value)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_scalar((*path, index), item, findings, "true or false, a number or text")
    else:
        _check_scalar(path, value, findings, "true or false, a number, text, or a list of these")


def _check_scalar(path: Path, value: object, findings: Findings, allowed: str) -> None:
    if not isinstance(value, bool | int | float | str):
        if path not in findings.document.broken:
            findings.at_value(path, f"must be {allowed}, not {kind_of(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        findings.at_value(path, "must be a finite number")


def _check_world_size(path: Path, case: Parameters, findings: Findings) -> None:
    if "world_size" not in case:
        findings.at_value(path, "needs `world_size`, since the task is `multi_gpu`")
    elif type(case["world_size"]) is not int or case["world_size"] < 1:
        findings.at_value((*path, "world_size"), "must be a positive whole number")


def _check_call(path: Path, case: Parameters, call: Signature, findings: Findings, filled: set[str]) -> None:
    for name in case:
        if name not in call.named and not call.takes_any_name:
            guess = did_you_mean(name, call.named)
            allowed = ", ".join(call.named) or "none"
            findings.at_key(
                (*path, name), f"is no parameter of `generate_input`;{guess} its parameters are {allowed}"
            )
    for name in call.required:
        if name not in case and name not in filled and name not in call.positional_only:
            findings.at_value(path, f"`{name}` is missing, which `generate_input` requires")
