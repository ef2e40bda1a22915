"""Answers whose numbers lie far outside of the range of right ones, tasks that accept wrong ones within it, and odd
answers that are right."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness_runs import ranked
from pairs_of_checkers import HEAD, PAIRS

from builders import make_spec
from kernelcup_harness.core import ranges
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import Checks, Fault, Place
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.doubt import probes
from kernelcup_harness.protocol import CheckStyle, Reason, SampleName, StageName, Verdict
from warm_harness import Run


def task_of(reference: str, check: str) -> str:
    """Return a task's text."""
    body = f"def ref_kernel(data):\n    return {reference}\n\n\n"
    return f"{HEAD}{body}def check_implementation(data, output):\n    {check}\n"


SAMPLE = SampleName(input=0)
NEVER = math.inf


class Judged:
    """A task's judge, in this process."""

    def __init__(self, task: TaskCode, size: int = 8, **settings: Any) -> None:
        self.place = Place(StageName.TEST, 0, {"size": size, "seed": 3})
        self.task, self.checks = task, Checks(task, bytes(32), make_spec(**settings))

    def expected(self) -> Any:
        return self.checks.expected(self.checks.make_input(self.place, SAMPLE))

    def fault(self, output: Any) -> Fault | None:
        return self.checks.fault(
            self.place, SAMPLE, self.checks.make_input(self.place, SAMPLE), Answer(output=output)
        )

    def fault_of(self, text: str) -> Fault | None:
        """Return the fault of an answer in words of Python."""
        data = self.checks.make_input(self.place, SAMPLE)
        names = {"torch": torch, "np": np, "data": data, "right": self.expected()}
        return self.fault(eval(text, names | {"reference": self.task.expected}))

    def accepted(self, **wanted: bool) -> list[str]:
        """Return the probes that are accepted."""
        return probes.accepted(self.checks, [self.place], NEVER, **({"dtypes": True} | wanted))


Make = Callable[..., Judged]


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return what makes a task's judge of its text."""
    monkeypatch.syspath_prepend(tmp_path)
    count = itertools.count()

    def judge(source: str, size: int = 8, **settings: Any) -> Judged:
        name = f"ranged_task_{next(count)}"
        (tmp_path / f"{name}.py").write_text(source)
        task = TaskCode(name, CheckStyle.DATA_OUTPUT, tmp_path)
        sys.modules.pop(name)
        return Judged(task, size, **settings)

    return judge


def size_of(name: str) -> int:
    return 64 if "norm" in name else 8


def test_there_are_sixteen_pairs() -> None:
    assert len(PAIRS) == 16


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.rule == "range"])
def test_a_number_far_outside_of_the_range_is_wrong_whatever_the_checker_says(judge: Make, name: str) -> None:
    pair = PAIRS[name]
    judged = judge(pair.source(), size_of(name))
    fault = judged.fault_of(pair.wrong)
    assert fault is not None
    assert (fault.reason, "far outside of" in fault.text) == (Reason.RANGE, True)
    assert judged.fault_of(pair.right) is None
    assert judge(pair.source(), size_of(name), wide_answers=True).fault_of(pair.wrong) is None


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.rule == "probe"])
def test_what_the_range_cannot_see_is_found_as_a_fault_of_the_task(judge: Make, name: str) -> None:
    pair = PAIRS[name]
    judged = judge(pair.source(), size_of(name))
    assert judged.fault_of(pair.right) is None
    assert judged.fault_of(pair.wrong) is None, "nothing is refused for it"
    assert judged.accepted()


GOOD = """
def ref_kernel(data):
    return {}


def check_implementation(data, output):
    right = ref_kernel(data)
    return torch.allclose(output.double(), right.double(), rtol=1e-2, atol=1e-2)
"""


@pytest.mark.parametrize(
    "reference",
    [
        "data @ data",
        "(data @ data).half()",
        "(data @ data).double()",
        "torch.softmax(data, -1)",
        "(data.sigmoid() * 255).to(torch.uint8)",
        "(data * 1000).long()",
        "data.argsort()",
        "torch.zeros_like(data)",
        "data.sum()",
        "torch.triu(data)",
        "data.masked_fill(data > 0, float('-inf'))",
    ],
)
def test_a_good_checker_accepts_no_probe(judge: Make, reference: str) -> None:
    assert judge(HEAD + GOOD.format(reference)).accepted() == []


def test_a_probe_that_other_cases_refuse_is_no_fault_of_the_task(judge: Make) -> None:
    source = PAIRS["an image as uint8"].source()
    only_small = source.replace("    return bool(", "    return len(data) < 9 and bool(")
    judged = judge(only_small)
    places = [judged.place, Place(StageName.TEST, 1, {"size": 16, "seed": 4})]
    assert probes.accepted(judged.checks, places[:1], NEVER, dtypes=True)
    assert probes.accepted(judged.checks, places, NEVER, dtypes=True) == []


LOSSY = """
def ref_kernel(data):
    return data.softmax(-1)


def check_implementation(data, output):
    right = ref_kernel(data)
    if (output.sum(-1) - 1).abs().max() > 1e-3:
        return "rows"
    kl = torch.nn.functional.kl_div(output.log(), right, reduction="batchmean")
    return "KL" if kl.item() > 1e-4 else ""
"""


def test_a_divergence_that_is_nan_is_found(judge: Make) -> None:
    assert judge(HEAD + LOSSY).accepted() == ["too large and too small in turn"]


# Ranges


@pytest.mark.parametrize(
    ("right", "wrong", "is_far"),
    [
        ([0.0, 1.0], [0.0, 17.0], False),
        ([0.0, 1.0], [0.0, 17.1], True),
        ([1000.0, 1001.0], [1000.0, 17017.0], False),
        ([1000.0, 1001.0], [-15100.0, 1001.0], True),
        ([-1.7e308, 1.7e308], [1.7e308, -1.7e308], False),
        ([0.0, float("inf")], [0.0, 1e300], False),
        ([0.0, float("-inf")], [17.0, -3e38], True),
        ([0.0, float("nan"), 1.0], [0.0, 1e38, 1.0], False),
        ([float("nan")] * 2, [1e38, -1e38], False),
        ([0.0, 1 + 1j], [0.0, 1 + 40j], True),
        ([0.0, 1 + 1j], [0.0, 1 + 9j], False),
        ([], [], False),
    ],
)
@pytest.mark.parametrize("form", [torch.tensor, np.array])
def test_fractions_may_be_sixteen_ranges_off(
    form: Any, right: list[Any], wrong: list[Any], is_far: bool
) -> None:
    kind = {"dtype": form([1j]).dtype} if any(type(each) is complex for each in right) else {}
    if form is torch.tensor and not kind:
        kind = {"dtype": torch.float64}
    found = ranges.first_unexpected(form(right, **kind), form(wrong, **kind))
    assert (found is not None and found[0] is Reason.RANGE) is is_far


I64 = (-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("dtype", "right", "wrong", "is_far"),
    [
        (torch.int64, [5, 5], [5, 261], False),
        (torch.int64, [5, 5], [5, 262], True),
        (torch.int64, I64, I64[::-1], False),
        (torch.int64, [I64[1], I64[1]], [I64[1], I64[0]], True),
        (torch.int64, [0, 1000], [0, 257_001], True),
        (torch.int16, [0, 9], [0, -2305], True),
        (torch.uint16, [0, 9], [0, 65535], True),
        (torch.uint32, [0, 9], [0, (1 << 32) - 1], True),
        (torch.uint64, [(1 << 64) - 9, (1 << 64) - 1], [(1 << 64) - 9, 0], True),
        (torch.uint64, [(1 << 64) - 9, (1 << 64) - 1], [(1 << 64) - 9, (1 << 64) - 300], False),
        (torch.uint8, [0, 0], [255, 255], False),
        (torch.int8, [-128, -128], [127, 127], False),
        (torch.bool, [True, True], [False, False], False),
    ],
)
def test_whole_numbers_may_be_256_ranges_off(
    dtype: torch.dtype, right: list[int], wrong: list[int], is_far: bool
) -> None:
    expected, actual = (torch.tensor(each, dtype=dtype) for each in (right, wrong))
    found = ranges.first_unexpected(expected, actual)
    assert (found is not None) is is_far
    assert found is None or all(str(each) in found[1] for each in right), "the text has the range"


@pytest.mark.parametrize(
    ("right", "wrong", "is_far"),
    [
        (1, 257, False),
        (1, 258, True),
        (1 << 70, (1 << 70) + 300, True),
        (0.5, 16.5, False),
        (0.5, 16.6, True),
        (1e308, -1e308, False),
        (float("inf"), 1e300, False),
        (np.float32(2), np.float32(99), True),
        (np.int32(2), np.int32(258), False),
        (np.uint64(1 << 63), np.uint64(0), True),
        (1j, 20j, True),
        (True, False, False),
        ("a", "b", False),
        (None, None, False),
        ({"a": [1.0, (2,)]}, {"a": [1.0, (900,)]}, True),
    ],
)
def test_numbers_of_python_and_numpy_have_a_range(right: Any, wrong: Any, is_far: bool) -> None:
    assert (ranges.first_unexpected(right, wrong) is not None) is is_far


def test_sparse_tensors_have_the_range_of_their_values() -> None:
    right = torch.tensor([[0.0, 3.0], [2.0, 0.0]]).to_sparse_coo()
    more = torch.tensor([[1.0, 3.0], [2.0, 0.0]])
    assert ranges.first_unexpected(right, more.to_sparse_coo()) is None
    assert ranges.first_unexpected(right, (more * 99).to_sparse_coo()) is not None
    infinite = (right * float("inf")).coalesce()
    assert ranges.first_unexpected(infinite, (more * 99).to_sparse_coo()) is None


def test_an_answer_that_is_near_every_range_costs_no_call_of_the_reference(judge: Make) -> None:
    judged = judge(
        HEAD + "def ref_kernel(data):\n    return data\n\n\ndef check_implementation(*_):\n    return True\n"
    )
    calls: list[object] = []
    reference = judged.task.expected
    judged.task.expected = lambda data: calls.append(data) or reference(data)  # type: ignore[method-assign]
    counts = []
    for answer in (torch.ones(8, 8), torch.ones(8, 8) * 15, torch.ones(8, 8) * 16):
        calls.clear()
        assert judged.fault(answer) is None
        counts.append(len(calls))
    assert counts[1:] == [counts[1], counts[1] + 1]
    assert not ranges.is_near(torch.tensor([16.0]))
    assert not ranges.is_near(torch.tensor([1]))
    assert ranges.is_near([torch.tensor([1], dtype=torch.uint8), True, "text", torch.empty(0)])


# Honest answers

EQUAL = "right = ref_kernel(data)\n    return torch.equal(torch.as_tensor(output), torch.as_tensor(right))"
CLOSE = (
    "right = ref_kernel(data)\n"
    "    return torch.allclose(torch.as_tensor(output).double(), torch.as_tensor(right).double(), rtol=1e-2, atol=1e-2)"
)
TWO_WAYS = (
    "right = ref_kernel(data)\n    return bool(torch.minimum(output - right, right - output).max() <= 1)"
)
GREY = "(data.sigmoid() * 255).to(torch.uint8)"
LOWEST = "torch.finfo(data.dtype).min"
HASH = "((data * 1000).long() * 0x5851F42D4C957F2D + 0x14057B7EF767814F)"
ODD = {
    "an image of which one value is one too large": (GREY, TWO_WAYS, f"{GREY}.clamp(0, 254) + 1"),
    "an image of which one value is one too small": (GREY, TWO_WAYS, f"{GREY}.clamp(1, 255) - 1"),
    "an image that is inverted twice": (GREY, EQUAL, f"255 - (255 - {GREY})"),
    "a black image": (f"{GREY} * 0", TWO_WAYS, f"{GREY} * 0 + 1"),
    "an image in int32": (f"{GREY}.int()", CLOSE, f"{GREY}.int()"),
    "an image from 0 to 1": ("data.sigmoid()", CLOSE, "(data.sigmoid() * 255).round() / 255"),
    "counts of one bin": ("(data > 99).sum(0)", EQUAL, "(data > 99).long().sum(0)"),
    "a count": ("int((data > 0).sum())", EQUAL, "(data > 0).sum()"),
    "a count as a fraction": ("(data > 0).sum().float()", EQUAL, "(data > 0).float().sum()"),
    "a whole number of 64 bits": (f"int({HASH}[0, 0])", EQUAL, f"{HASH}[0, 0]"),
    "the smallest whole number": ("torch.full((8,), -1 << 63)", EQUAL, "torch.full((8,), -1 << 63)"),
    "the largest whole number": ("torch.full((8,), (1 << 63) - 1)", EQUAL, "torch.full((8,), (1 << 63) - 1)"),
    "both of them": (
        "torch.tensor([-1 << 63, (1 << 63) - 1])",
        EQUAL,
        "torch.tensor([-1 << 63, (1 << 63) - 1])",
    ),
    "a hash that wraps": (HASH, EQUAL, HASH),
    "a hash in another order": (
        HASH,
        EQUAL,
        f"0x14057B7EF767814F + 0x5851F42D4C957F2D * {HASH[1:8]}000).long()".replace(
            "(data *000)", "(data * 1000)"
        ),
    ),
    "a hash of one number": (f"{HASH}.sum()", EQUAL, f"{HASH}.flip(0).sum()"),
    "a checker that hashes": (
        "(data * 1000).long()",
        "h = lambda x: (x * 0x5851F42D4C957F2D).sum()\n    return bool(h(output) == h(ref_kernel(data)))",
        "(data * 1000).long()",
    ),
    "a tie that goes to the last": (
        "(data > 0).long().argmax(1)",
        "return bool(((data > 0).long().gather(1, output[:, None])[:, 0] == (data > 0).long().amax(1)).all())",
        "7 - (data > 0).long().flip(1).argmax(1)",
    ),
    "an order with ties": (
        "(data > 0).long().argsort(stable=True)",
        "return bool(((data > 0).long().gather(1, output).diff() >= 0).all())",
        "(data > 0).long().flip(1).argsort(stable=True).mul(-1).add(7)",
    ),
    "any element that is positive": (
        "int((data.flatten() > 0).nonzero()[0])",
        "return bool(data.flatten()[output] > 0)",
        "int((data.flatten() > 0).nonzero()[-1])",
    ),
    "any basis": (
        "torch.linalg.qr(data)[0]",
        "return torch.allclose(output @ output.T, torch.eye(len(data)), atol=1e-4)",
        "-torch.linalg.qr(data)[0]",
    ),
    "any solution": (
        "torch.linalg.pinv(data[:4]) @ data[:4].sum(1)",
        "return torch.allclose(data[:4] @ output, data[:4].sum(1), atol=1e-3)",
        "torch.ones(8)",
    ),
    "the smallest number for minus infinity": (
        "data.masked_fill(data > 0, float('-inf'))",
        f"right = ref_kernel(data)\n    return torch.equal(output, right.clamp(min={LOWEST}))",
        f"data.masked_fill(data > 0, {LOWEST})",
    ),
    "minus infinity for the smallest number": (
        f"data.masked_fill(data > 0, {LOWEST})",
        f"right = ref_kernel(data)\n    return torch.equal(output.clamp(min={LOWEST}), right)",
        f"data.masked_fill(data > 0, {LOWEST})",
    ),
    "the largest number for NaN": (
        "(data - 3).sqrt()",
        "kept = ref_kernel(data).isfinite()\n    return torch.equal(output[kept], ref_kernel(data)[kept])",
        "torch.full_like(data, 3e38).where((data - 3).sqrt().isnan(), (data - 3).sqrt())",
    ),
    "a long sum": (
        "(data.repeat(999, 99) * 1e3).sum()",
        CLOSE,
        "(data.repeat(999, 99).double() * 1e3).sum().float()",
    ),
    "a long sum that nearly cancels out": (
        "(data.repeat(99, 1) * 1e4).cumsum(0)",
        "return torch.allclose(output, ref_kernel(data), rtol=1e-2, atol=99)",
        "(data.repeat(99, 1).double() * 1e4).cumsum(0).float()",
    ),
    "a long sum of halves": (
        "(data.half().repeat(99, 1)).sum(0)",
        "return torch.allclose(output, ref_kernel(data), rtol=1e-2, atol=1)",
        "data.half().repeat(99, 1).double().sum(0).half()",
    ),
    "a sum of whole numbers that wraps": (f"{HASH}.cumsum(0)", EQUAL, f"{HASH}.cumsum(0)"),
    "fractions in float64": ("data * 1e6", CLOSE, "data.double() * 1e6"),
    "complex numbers": (
        "torch.fft.fft(data * 99)",
        "return torch.allclose(output, ref_kernel(data), rtol=1e-3)",
        "torch.fft.fft(data.double() * 99).to(torch.complex64)",
    ),
    "a mask": ("data > 0", EQUAL, "(data > 0).byte()"),
    "an empty tensor": ("(data[:0] * 1e9, data)", "return True", "(data[:0], data + 1)"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_honest_answer_of_odd_numbers_is_right(judge: Make, name: str) -> None:
    reference, check, answer = ODD[name]
    fault = judge(task_of(reference, check)).fault_of(answer)
    assert fault is None, fault


def test_there_are_thirty_of_them() -> None:
    assert len(ODD) >= 30


# Fuzz

KINDS: dict[str, str] = {
    "float32": "data @ data",
    "float16": "(data @ data).half()",
    "bfloat16": "(data @ data).bfloat16()",
    "float64": "(data @ data).double() * 1e6",
    "constant": "torch.full_like(data, 7.5)",
    "int64": "(data * 1000).long()",
    "int32": "(data * 1000).int()",
    "int16": "(data * 100).short()",
    "equal": "torch.full_like(data, 3).long()",
    "masked": "data.masked_fill(data > 0, float('-inf'))",
}
CHECKERS = {
    "any": "True",
    "squares": "not bool((d * d).sum() > 1)",
    "magnitudes": "not bool(d.abs().sum() > 1)",
}
"""Of each kind of answer, checkers that accept what wraps or becomes NaN, and all others."""


def is_far(right: list[Any], wrong: list[Any]) -> bool:
    """Return whether a number is far outside, by exact fractions."""
    pairs = [(r, w) for r, w in zip(right, wrong, strict=True) if math.isfinite(r)]
    exact = [Fraction(r) for r, _ in pairs]
    low, high = min(exact), max(exact)
    whole = type(right[0]) is int
    room = 256 * max(1, high - low) if whole else 16 * max(1, high - low, abs(low), abs(high))
    return any(not low - room <= Fraction(w) <= high + room for _, w in pairs if math.isfinite(w))


def changed(right: torch.Tensor, chance: random.Random) -> torch.Tensor:
    """Return an answer with a few numbers changed, by anything from nothing to all that its dtype holds."""
    wrong = right.clone()
    for _ in range(chance.choice([0, 0, 1, 1, 5])):
        at = chance.randrange(wrong.numel())
        if right.is_floating_point():
            most = torch.finfo(right.dtype).max
            number = chance.choice([-1, 1]) * min(most, 10 ** chance.uniform(-3, math.log10(most) - 0.01))
        else:
            limits = torch.iinfo(right.dtype)
            number = chance.choice([-1, 1]) * (1 << chance.randrange(limits.bits - 1)) + chance.randrange(
                -9, 9
            )
            number = max(limits.min, min(limits.max, number))
        wrong.view(-1)[at] = number
    return wrong


@pytest.mark.parametrize(
    "answers", [pytest.param(9), pytest.param(67, marks=pytest.mark.jobs)], ids=["an eighth", "all"]
)
def test_no_answer_is_accepted_that_is_far_off_and_none_refused_that_is_right(
    judge: Make, answers: int
) -> None:
    seen = {True: 0, False: 0}
    for (kind, reference), (name, rule) in itertools.product(KINDS.items(), CHECKERS.items()):
        check = f"d = (output - ref_kernel(data)).nan_to_num(0)\n    return {rule}"
        judged, chance = judge(task_of(reference, check)), random.Random(f"{kind} {name}")
        right = judged.expected()
        assert judged.fault(right) is None
        for _ in range(answers):
            wrong = changed(right, chance)
            far = is_far(right.flatten().tolist(), wrong.flatten().tolist())
            fault = judged.fault(wrong.clone())
            assert (fault is not None and "far outside" in fault.text) is far, (kind, name, wrong)
            assert name != "any" or far or fault is None
            seen[far] += 1
    assert min(seen.values()) > 2 * answers


# Once a job

WEAK = PAIRS["an image as uint8"]
HONEST = f"import torch\n\n\ndef custom_kernel(data):\n    return {WEAK.reference}\n"


@pytest.mark.jobs
@pytest.mark.parametrize("any_answer", [False, True])
def test_a_result_of_a_task_that_accepts_a_probe_is_held_and_not_refused(warm: Run, any_answer: bool) -> None:
    cases = {"benchmarks": [{"size": 8, "seed": 5}], "any_answer": any_answer}
    report = warm(ranked(HONEST, sources={"reference.py": WEAK.source()}, **cases))
    assert report.verdict is Verdict.ACCEPTED, report.message
    found = [each for each in report.quarantine if each.code == "weak_checker"]
    assert len(found) == (not any_answer)
    assert all("with 2^8 added" in each.text for each in found)


@pytest.mark.parametrize(
    ("expected", "answer", "near"),
    [
        (torch.tensor([100.0, 900.0]), torch.tensor([-50.0, 1_000.0]), True),
        (torch.tensor([100.0, 900.0]), torch.tensor([100.0, 90_000.0]), False),
        (torch.tensor([100.0, 900.0]), torch.tensor([100.0, math.nan]), False),
        (torch.tensor([100.0, math.inf]), torch.tensor([100.0, 900.0]), False),
        (torch.tensor([3, 1_000]), torch.tensor([0, 1_003]), True),
        (torch.tensor([3, 1_000]), torch.tensor([3, 1 << 40]), False),
        (torch.tensor([3], dtype=torch.uint8), torch.tensor([3]), False),
        ((torch.tensor([100.0]), 7), (torch.tensor([101.0]), 8), True),
        ((torch.tensor([100.0]), 7), torch.tensor([101.0]), False),
    ],
)
def test_the_range_of_another_input_of_the_case_saves_the_reference(
    expected: Any, answer: Any, near: bool
) -> None:
    assert ranges.is_near(answer, ranges.rooms_of(expected)) == near
