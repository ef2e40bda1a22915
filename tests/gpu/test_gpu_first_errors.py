"""What a newcomer reads on the emulated device is what a GPU says: here the GPU says it."""

from __future__ import annotations

import re

import pytest
import torch

from emulated_first_errors import FIRST_ERRORS, FirstError, first_errors_job
from kernelcup_harness.protocol import Backend, RunReport
from kernelcup_harness.run.runner import run_job

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.fixture(scope="module")
def report() -> RunReport:
    return run_job(first_errors_job(Backend.CUDA), lambda _event: None)


@pytest.mark.parametrize("number", range(len(FIRST_ERRORS)), ids=[each.name for each in FIRST_ERRORS])
def test_a_gpu_says_what_the_emulated_device_says(report: RunReport, number: int) -> None:
    expected: FirstError = FIRST_ERRORS[number]
    case = report.stages[-1].cases[number]
    assert (case.verdict, bool(re.search(expected.says, case.message))) == (expected.verdict, True), (
        case.message
    )
