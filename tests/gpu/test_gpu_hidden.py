"""Hidden cases on a real GPU: called after all public ones, by a process that shares nothing with the other."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch

from kernelcup_harness.isolation import sandbox
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    MeasureRules,
    Mode,
    RunReport,
    SourceTree,
    StageName,
    Verdict,
)
from kernelcup_harness.run.runner import run_job

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

HIDDEN_SIZE = 4_321
REFERENCE = """\
import torch


def generate_input(size, seed):
    chance = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(0, 1 << 20, (size,), generator=chance, device="cuda")


def ref_kernel(data):
    return data * 2


def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""

TELLS = """\
import time

began = time.monotonic()


def custom_kernel(data):
    at = time.monotonic()
    if len(data) == {raises}:
        raise ValueError(f"began={{began}} called={{at}}")
    print(f"called={{at}}", flush=True)
    return data * 2
"""

LOCKS = """\
import ctypes, fcntl, os, struct

file = os.open(os.__file__, os.O_RDONLY)
record = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 64, 0)
for name, command in (("set", fcntl.F_SETLK), ("look", fcntl.F_GETLK)):
    try:
        fcntl.fcntl(file, command, record)
        print(f"{name}=\\"worked\\"")
    except OSError as error:
        print(f"{name}=\\"{error.strerror}\\"")


def custom_kernel(data):
    return data * 2
"""


def judged(submission: str) -> tuple[RunReport, list[dict[str, Any]]]:
    """Judge a ranked job with hidden cases; return the report and the events of the run."""
    events: list[dict[str, Any]] = []
    hidden = [{"size": HIDDEN_SIZE, "seed": 11}]
    spec = JobSpec(
        job_id="hidden",
        mode=Mode.LEADERBOARD,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.py": REFERENCE},
        private_files=["reference.py"],
        submission=SourceTree.of(submission),
        tests=[{"size": 64, "seed": 1}],
        benchmarks=[{"size": 1 << 20, "seed": 2}],
        hidden_tests=hidden,
        hidden_benchmarks=hidden,
        rules=MeasureRules(min_samples=8, max_samples=16, stage_budget_s=3.0),
    )
    return run_job(spec, events.append), events


def printed(report: RunReport, name: str) -> list[Any]:
    """Return what the contestant of public cases printed as ``name=JSON``."""
    return [json.loads(text) for text in re.findall(rf"^{name}=(.*)$", report.stdout.text, re.MULTILINE)]


def test_public_and_hidden_cases_are_replayed_and_accepted() -> None:
    report, events = judged(TELLS.format(raises=-1))

    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert report.environment["clean_room"]["replayed"], report.environment["clean_room"]
    assert [stage.name for stage in report.stages] == [StageName.IMPORT, StageName.TEST, StageName.RANKED]
    for stage in report.stages[1:]:
        assert [case.hidden for case in stage.cases] == sorted(case.hidden for case in stage.cases)
        assert [case.met_hidden for case in stage.cases] == [case.hidden for case in stage.cases]
    assert [event["stage"] for event in events if event["event"] == "stage"] == [
        "import",
        "test",
        "ranked",
        "import",
        "test",
        "ranked",
    ]


def test_the_contestant_of_hidden_cases_imports_after_the_last_public_call() -> None:
    report, _ = judged(TELLS.format(raises=HIDDEN_SIZE))

    assert report.verdict is Verdict.RUNTIME_ERROR, report.message
    told = re.search(r"began=([\d.]+) called=([\d.]+)", report.message)
    assert told is not None, report.message
    last_public = max(printed(report, "called"))
    assert last_public < float(told[1]) < float(told[2])


@pytest.mark.skipif(not sandbox.has_own_names(), reason="no bubblewrap")
def test_locks_on_shared_files_are_refused() -> None:
    report, _ = judged(LOCKS)

    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert printed(report, "set") == printed(report, "look") == ["No locks available"]
