"""Judging a file in a process of its own, as a launcher does, and reading what was said of it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import kernelcup.tasks
from kernelcup.domain import Task
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import (
    CaseResult,
    JobSpec,
    RunReport,
    SourceTree,
    Verdict,
    dumps,
    first_errors,
    from_json,
)
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from warm_harness import IDLE_HARNESS

EXAMPLES = Path(kernelcup.tasks.__file__).parent / "examples"
SINGLE_FILE = "reference_code.py"

# Enough to see that measuring works; precision is not what is judged here.
QUICK_RULES: dict[str, Any] = {"warmups": 1, "min_samples": 2, "max_samples": 4, "case_budget_s": 1.0}
LONGEST_RUN_S = 600.0


def task_path(folder: Path) -> Path:
    """Return what to load: the folder, or its one file if it is a task of the older form."""
    return folder / SINGLE_FILE if (folder / SINGLE_FILE).exists() else folder


def read_yaml(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(path.read_text(encoding="utf-8")))


@cache
def loaded(folder: Path) -> Task:
    return load_task(task_path(folder))


def run_harness(spec: JobSpec) -> RunReport:
    """Run the harness in a process of its own and return its report."""
    finished = subprocess.run(
        [*IDLE_HARNESS, "-"],
        input=dumps(spec),
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    last = json.loads(finished.stdout.splitlines()[-1])
    return from_json(RunReport, last["report"])


def first_bad_case(report: RunReport) -> int | None:
    """Return the index of the first case that is not accepted; None if there is none.

    A case that was cut off is not in the report: it is the one after those that are.
    """
    stage = next((stage for stage in report.stages if stage.verdict is not Verdict.ACCEPTED), None)
    if stage is None:
        return None
    found = bad_case(stage.cases)
    return found.index if found is not None else len(stage.cases)


def bad_case(cases: list[CaseResult]) -> CaseResult | None:
    return next((case for case in cases if case.verdict is not Verdict.ACCEPTED), None)


def what_was_said(report: RunReport) -> str:
    """Return all that a person reads of a failure: of the run, the stage and the case, and what each means."""
    texts = [report.message]
    for stage in report.stages:
        case = bad_case(stage.cases)
        texts += [stage.message, case.message if case is not None else ""]
    return "\n".join([*texts, *(first_errors.advice(each) for each in texts)])


def needs_triton(file: Path) -> bool:
    return re.search(r"^import triton", file.read_text(encoding="utf-8"), re.MULTILINE) is not None


def lacks(file: Path) -> str:
    """Name what the file needs and this machine does not have, empty if nothing."""
    if needs_triton(file) and importlib.util.find_spec("triton") is None:
        return "Triton"
    if file.suffix == ".cu" and EXAMPLES in file.parents:
        return "a GPU"
    return "nvcc" if file.suffix == ".cu" and find_nvcc(os.environ) is None else ""


def as_sent(file: Path) -> SourceTree:
    return SourceTree.of(file.read_text(encoding="utf-8"), f"submission{file.suffix}")
