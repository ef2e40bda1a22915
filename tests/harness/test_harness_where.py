"""Where a submission hung or crashed, and whose lines its standard error has."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from harness_runs import quick_spec

from kernelcup_harness.profile.torch_trace import TorchTrace
from kernelcup_harness.protocol import Limits, Mode, Verdict
from warm_harness import Run

HANGS = """\
import time
def custom_kernel(data):
    while len(data) == 32:
        time.sleep(0.01)
    return data * 2
"""
CRASHES = """\
import ctypes


def custom_kernel(data):
    if len(data) == 32:
        ctypes.string_at(0)
    return data * 2
"""
CASES = [{"size": 16, "seed": 1}, {"size": 32, "seed": 2}]


@pytest.mark.jobs
def test_a_hang_names_case_and_line(warm: Run) -> None:
    limits = Limits(test_s=10.0)
    report = warm(quick_spec(HANGS, mode=Mode.TEST, tests=CASES, limits=limits))
    assert report.verdict is Verdict.TIME_LIMIT_EXCEEDED, report.message
    assert report.message.startswith("the test stage took longer than 10 s, in case 1, at submission.py:")
    # On a busy machine more follows.
    assert int(report.message.partition("; ")[0].rpartition(":")[2]) in (3, 4)


def test_a_crash_names_case_and_line(warm: Run) -> None:
    report = warm(quick_spec(CRASHES, mode=Mode.TEST, tests=CASES))
    assert report.verdict is Verdict.RUNTIME_ERROR
    told = "the submission's process was ended by SIGSEGV, in case 1, at submission.py:6"
    assert report.message == told


def test_what_the_profiler_prints_is_not_the_submissions(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    class Noisy(torch.profiler.profile):
        def __enter__(self) -> Any:
            os.write(2, b"INFO: kineto begins\n")
            return super().__enter__()

        def __exit__(self, *how: Any) -> None:
            os.write(2, b"INFO: kineto ends\n")
            super().__exit__(*how)

    monkeypatch.setattr(torch.profiler, "profile", Noisy)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    TorchTrace().inside(lambda: os.write(2, b"mine\n"), lambda: None)
    assert capfd.readouterr().err == "mine\nmine\n"
