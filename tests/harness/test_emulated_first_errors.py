"""What a newcomer reads on the emulated device is what a GPU says."""

from __future__ import annotations

import importlib.util
import re

import pytest
from harness_runs import run

from emulated_first_errors import FIRST_ERRORS, FirstError, first_errors_job
from kernelcup_harness.protocol import Backend, RunReport

pytestmark = pytest.mark.jobs


@pytest.fixture(scope="module")
def report() -> RunReport:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("needs Triton")
    return run(first_errors_job(Backend.EMULATED)).report


@pytest.mark.parametrize("number", range(len(FIRST_ERRORS)), ids=[each.name for each in FIRST_ERRORS])
def test_a_first_error_is_said_in_the_words_of_a_gpu(report: RunReport, number: int) -> None:
    expected: FirstError = FIRST_ERRORS[number]
    case = report.stages[-1].cases[number]
    assert (case.verdict, bool(re.search(expected.says, case.message))) == (expected.verdict, True), (
        case.message
    )


def test_the_line_is_named_where_a_tensor_on_the_host_was_made(report: RunReport) -> None:
    message = report.stages[-1].cases[0].message
    assert re.search(r"The tensor on cpu was made in submission\.py:\d+\.", message)
