"""Whole runs of the harness, as a launcher starts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernelcup_harness
from builders import make_spec
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RunReport,
    SourceTree,
    dumps,
    from_json,
)
from warm_harness import IDLE_HARNESS

SOURCE = Path(kernelcup_harness.__file__).parent.parent
LONGEST_RUN_S = 600.0
QUICK = MeasureRules(warmups=1, min_samples=2, max_samples=3, case_budget_s=1.0)
RANKED = MeasureRules(warmups=1, min_samples=3, max_samples=4, stage_budget_s=0.4)
REPLAYED = MeasureRules(
    min_samples=4, max_samples=6, relative_error=0.0, case_budget_s=60.0, stage_budget_s=60.0
)
"""Few calls of a ranked case: by the wall clock, and in the clean room, where no case of a busy machine is slow."""
HONEST = "def custom_kernel(data):\n    return data * 2\n"

# A task without torch.randn: what is generated can be said in one line.
REFERENCE = """\
import torch


def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 1 << 20, (size,), generator=generator)


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""


def quick_spec(submission: str | SourceTree, **overrides: Any) -> JobSpec:
    """Return a job that takes as little time as it can; the reference is private."""
    values: dict[str, Any] = {
        "sources": {"reference.py": REFERENCE},
        "private_files": ["reference.py"],
        "submission": submission,
        "benchmarks": [{"size": 8, "seed": 5}],
        "rules": QUICK,
    }
    return make_spec(**(values | overrides))


def ranked(submission: str | SourceTree = HONEST, **overrides: Any) -> JobSpec:
    """Return a ranked job of one case on the processor; of those that are given, and by other rules."""
    values: dict[str, Any] = {"mode": Mode.LEADERBOARD, "backend": Backend.CPU, "tests": [], "rules": RANKED}
    return quick_spec(submission, **(values | overrides))


def replayed(submission: str | SourceTree = HONEST, **overrides: Any) -> JobSpec:
    """Return :func:`ranked` for the clean room."""
    return ranked(submission, **({"rules": REPLAYED} | overrides))


def own_spec(text: str, **overrides: Any) -> JobSpec:
    """Return a job for a task's own harness, an ``eval.py`` with this text."""
    values: dict[str, Any] = {
        "harness": HarnessKind.OWN,
        "sources": {"eval.py": text},
        "main": "eval.py",
        "submission": "",
        "benchmarks": [{"size": 8, "seed": 5}],
    }
    return make_spec(**(values | overrides))


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a run wrote."""

    report: RunReport
    events: list[dict[str, Any]]
    log: str

    def printed(self, name: str) -> list[Any]:
        """Return what the submission printed as ``name=JSON``, line by line."""
        return printed(self.report, name)


def printed(report: RunReport, name: str) -> list[Any]:
    """Return what the submission printed as ``name=JSON``, line by line."""
    return [json.loads(text) for text in re.findall(rf"^{name}=(.*)$", report.stdout.text, re.MULTILINE)]


def command(*options: str) -> list[str]:
    """Return the command line of the harness."""
    return [*IDLE_HARNESS, *options, "-"]


def run(
    spec: JobSpec, environment: Mapping[str, str] | None = None, argv: list[str] | None = None
) -> Finished:
    """Run a job to its end and return its report."""
    finished = subprocess.run(
        argv or command("--events"),
        input=dumps(spec),
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    *events, last = map(json.loads, finished.stdout.splitlines())
    return Finished(report=from_json(RunReport, last["report"]), events=events, log=finished.stderr)
