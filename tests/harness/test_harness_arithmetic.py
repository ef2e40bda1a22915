"""Checkers whose arithmetic fails on an answer: they compare NaN, or whole numbers wrap."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness_runs import quick_spec

from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import FAILS, Checks, Fault, Place
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.judge import arithmetic
from kernelcup_harness.protocol import CheckStyle, SampleName, StageName, Verdict
from warm_harness import Run

HEAD = """\
import numpy, torch


def generate_input(size, seed):
    return torch.randn(size, size, generator=torch.Generator().manual_seed(seed))


"""
INT8 = "torch.clamp((data / data.abs().max() * 127).round(), -127, 127).to(torch.int8)"
INT64 = "(data * 1000).long()"

CASES = {
    "relative difference": (
        "data @ data",
        (
            "x, y = output, ref_kernel(data)\n"
            "    if not torch.isfinite(x).all():\n        return 'not finite'\n"
            "    diff = 1 - 2 * (x * y).sum() / (x * x + y * y).sum()\n"
            "    return 'differs' if diff > 1e-3 else ''"
        ),
        "torch.full_like(data, 3e38)",
        "data @ data + 1e-5",
    ),
    "divergence": (
        "torch.softmax(data, -1)",
        (
            "if (output.sum(-1) - 1).abs().max() > 1e-3:\n        return 'rows'\n"
            "    kl = torch.nn.functional.kl_div(output.log(), ref_kernel(data), reduction='batchmean')\n"
            "    return 'KL' if kl.item() > 1e-4 else ''"
        ),
        "torch.zeros_like(data).index_fill(1, torch.tensor([0]), 2).index_fill(1, torch.tensor([1]), -1)",
        "torch.softmax(data.double(), -1).float()",
    ),
    "share of an infinite norm": (
        "data @ data",
        (
            "x, y = output, ref_kernel(data)\n"
            "    return bool((x - y).abs().max() / (x.norm() + y.norm()) < 1e-5)"
        ),
        "torch.full_like(data, 1e30)",
        "(data.double() @ data.double()).float()",
    ),
    "complex": (
        "torch.fft.fft(data)",
        "return not (output - ref_kernel(data)).norm() / output.norm() > 1e-4",
        "torch.full_like(data, 1e30) + 1e30j",
        "torch.fft.fft(data.double()).to(torch.complex64)",
    ),
    "residual without a reference": (
        None,
        "right = data @ output - torch.eye(len(data))\n    return not right.norm() / output.norm() > 1e-3",
        "torch.full_like(data, 1e38)",
        "torch.linalg.inv(data)",
    ),
    "NaN without a reference": (
        None,
        "return not (data @ output - torch.eye(len(data))).abs().max() > 1e-2",
        "data * float('nan')",
        "torch.linalg.inv(data)",
    ),
    "NumPy": (
        "data * 2",
        (
            "x, y = output.numpy(), ref_kernel(data).numpy()\n"
            "    with numpy.errstate(over='ignore'):\n"
            "        return bool(not 1 - 2 * (x * y).sum() / (x * x + y * y).sum() > 1e-3)"
        ),
        "torch.full_like(data, 3e38)",
        "data + data",
    ),
    "the sign of int8": (
        INT8,
        "return bool((output - ref_kernel(data)).abs().max() <= 1)",
        f"{INT8} ^ -128",
        INT8,
    ),
    "the edge of int8": (
        INT8,
        "return bool((output - ref_kernel(data)).abs().max() <= 2)",
        f"torch.where({INT8}.abs() == 127, -{INT8}, {INT8})",
        INT8,
    ),
    "the sign of int64": (
        INT64,
        "return bool((output - ref_kernel(data)).abs_().max() <= 0)",
        f"{INT64} ^ (-1 << 63)",
        INT64,
    ),
    "the square of int32": (
        "(data * 1000).int()",
        "return bool(((output - ref_kernel(data)) ** 2).max() <= 1)",
        "(data * 1000).int() + 65536",
        "(data * 1000).int()",
    ),
}
"""Each with its reference, checker, a wrong answer, and a right one that need not equal the reference's."""


def sources(reference: str | None, check: str) -> dict[str, str]:
    defined = "" if reference is None else f"def ref_kernel(data):\n    return {reference}\n\n\n"
    return {"reference.py": f"{HEAD}{defined}def check_implementation(data, output):\n    {check}\n"}


class Watched:
    """Does here what the checker's process does."""

    def __init__(self, task: TaskCode) -> None:
        self._task = task

    def check(self, given: Any, output: Any, *, seed: int, limit_s: float) -> str:
        return arithmetic.checked(self._task, given, output)


FaultOf = Callable[..., Fault | None]


@pytest.fixture
def fault_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultOf:
    def fault_of(reference: str | None, check: str, answer: str, **settings: bool) -> Fault | None:
        (tmp_path / "reference.py").write_text(sources(reference, check)["reference.py"])
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "reference", raising=False)
        task = TaskCode("reference", CheckStyle.DATA_OUTPUT, tmp_path)
        checks = Checks(task, bytes(32), checker=Watched(task), **settings)
        place = Place(StageName.TEST, 0, {"size": 8, "seed": 3})
        data = checks.make_input(place, SampleName(input=0))
        output = eval(answer, {"torch": torch, "data": data.clone()})
        return checks.fault(place, SampleName(input=0), data, Answer(output=output))

    return fault_of


@pytest.mark.parametrize("name", CASES)
def test_an_answer_on_which_a_checkers_arithmetic_fails_is_wrong_and_the_right_one_is_not(
    fault_of: FaultOf, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    reference, check, wrong, right = CASES[name]
    found = fault_of(reference, check, wrong)
    assert found is not None
    assert found.text == FAILS
    assert fault_of(reference, check, right) is None
    monkeypatch.setattr(arithmetic.Arithmetic, "failed", lambda _self: False)
    assert fault_of(reference, check, wrong) is None, "the checker refuses it by itself"


def test_the_process_of_the_checker_watches_it_too(warm: Run) -> None:
    reference, check, wrong, right = CASES["relative difference"]
    submission = "def custom_kernel(data):\n    import torch\n\n    return {}\n"
    for answer, verdict in ((wrong, Verdict.WRONG_ANSWER), (right, Verdict.ACCEPTED)):
        spec = quick_spec(
            submission.format(answer),
            sources=sources(reference, check),
            tests=[{"size": 8, "seed": 3}],
        )
        assert warm(spec).verdict is verdict


INFINITE = "torch.where(data > 0, data, float('-inf'))"


def test_a_checker_that_compares_nan_on_the_references_answer_too_decides(fault_of: FaultOf) -> None:
    check = (
        "return torch.allclose(output, ref_kernel(data)) and not bool((output - ref_kernel(data) > 1).any())"
    )
    assert fault_of(INFINITE, check, INFINITE) is None


def test_a_task_of_numbers_that_are_not_finite_is_left_to_its_checker(fault_of: FaultOf) -> None:
    check = "return not bool((output > 1).any())"
    assert fault_of(None, check, "data * float('nan')") is not None
    assert fault_of(None, check, "data * float('nan')", non_finite=True) is None


@pytest.mark.parametrize(
    "check",
    [
        "hash = data\n    for _ in range(9):\n        hash = hash * 0x5851F42D4C957F2D + 1\n    return True",
        "return bool((data.bool() + data.bool()).all()) and bool((output.sum() + 0.5) > 0)",
        "return bool((-(output % 7) * 3 - 2).abs().max() < 99)",
    ],
)
def test_whole_numbers_that_wrap_on_purpose_or_not_at_all_are_no_fault(fault_of: FaultOf, check: str) -> None:
    reference = "(data * 1000).abs().long() + 1"
    assert fault_of(reference, check.replace("= data\n", "= ref_kernel(data)\n"), reference) is None
