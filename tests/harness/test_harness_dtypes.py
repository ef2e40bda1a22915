"""No answer makes the judge fail, whatever its dtype: it is right, or it is the submission's fault."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelcup.tasks
from builders import make_spec
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.structure import fitted, structure_fault
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.explain import differences
from kernelcup_harness.explain.differences import first_mismatch
from kernelcup_harness.protocol import CheckStyle, Reason, SampleName, StageName
from kernelcup_harness.wire import values

SHARED = Path(kernelcup.tasks.__file__).parent / "shared/utils.py"
PLACE = Place(StageName.RANKED, 0, {"size": 12})
SAMPLES = (SampleName(input=0), SampleName(input=1), SampleName(input=1, twin=True))
DTYPES = sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str)
CARRIED = sorted(values.DTYPES.values(), key=str)

# What each reference returns of `x`, floats of `size` elements.
REFERENCES = {
    "float32": "x * 2",
    "float64": "x.double() * 2",
    "float16": "x.half()",
    "bfloat16": "x.bfloat16()",
    "float8": "x.to(torch.float8_e4m3fn)",
    "int64": "(x * 9).long()",
    "uint8": "(x.abs() * 9).to(torch.uint8)",
    "bool": "x > 0",
    "complex": "torch.complex(x, -x)",
    "packed": "(x.abs() * 9).to(torch.uint8).view(torch.uint4)",
    "not finite": "torch.where(x > 0, x, float('nan'))",
    "matrix": "(x.reshape(3, 4) * 2).t()",
    "empty": "x[:0]",
    "scalar": "x.sum()",
    "number": "float(x.sum())",
    "nest": "(x, {'a': [x > 0, 3]}, None)",
    "shape of the data": "x[: 4 + int(x.view(torch.int32)[0]) % 4]",
}
CHECKERS = {
    "shared": "check_implementation = make_match_reference(ref_kernel)\n",
    "own": """
def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [each for item in value for each in leaves(item)] if isinstance(value, (list, tuple)) else [value]
def plain(leaf):
    if leaf.dtype is torch.uint4:
        return leaf.view(torch.uint8)
    return leaf.float() if leaf.dtype.is_floating_point else leaf
def check_implementation(data, output):
    for right, got in zip(leaves(ref_kernel(data)), leaves(output), strict=True):
        if isinstance(right, torch.Tensor):
            right, got = plain(right), plain(got)
            if not torch.allclose(right.to(got.dtype), got, equal_nan=True):
                return False
        elif right != got:
            return False
    return True
""",
}
TASK = """
import torch
from utils import make_match_reference
def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(x):
    return {reference}
{checker}
"""


@pytest.fixture
def make_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function from a reference and a checker to the checks of that task."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "utils", raising=False)
    (tmp_path / "utils.py").write_text(SHARED.read_text())

    def make(reference: str, checker: str, **options: Any) -> Checks:
        (tmp_path / "fuzzed.py").write_text(
            TASK.format(reference=REFERENCES[reference], checker=CHECKERS[checker])
        )
        sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
        try:
            task = TaskCode("fuzzed", CheckStyle.DATA_OUTPUT, tmp_path)
        finally:
            sys.dont_write_bytecode = kept
            sys.modules.pop("fuzzed", None)
        return Checks(task, bytes(32), make_spec(**options), explain=first_mismatch)

    yield make
    sys.modules.pop("utils", None)


def filled(shape: Any, dtype: torch.dtype, byte: int) -> torch.Tensor:
    """Return a tensor of repeated bytes: PyTorch cannot fill tensors of all dtypes."""
    count = torch.Size(shape).numel() * dtype.itemsize
    return torch.full((count,), byte, dtype=torch.uint8).view(dtype).reshape(shape)


def answers(expected: Any) -> Iterator[Any]:
    """Yield answers of every dtype: in the expected form with several bytes, and in another form."""
    for dtype in CARRIED:
        for byte in (0, 1, 255):
            yield values.with_tensors(expected, functools.partial(like, dtype=dtype, byte=byte))
        yield filled((12,), dtype, 1)


def like(leaf: torch.Tensor, dtype: torch.dtype, byte: int) -> torch.Tensor:
    """Return a tensor of a leaf's shape."""
    return filled(leaf.shape, dtype, byte)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_answers_of_every_dtype_get_a_verdict(reference: str, checker: str, make_checks: Any) -> None:
    checks = make_checks(reference, checker)
    for number, sample in enumerate(SAMPLES):
        right = checks.expected(checks.make_input(PLACE, sample))
        assert checks.fault(PLACE, sample, checks.make_input(PLACE, sample), Answer(output=right)) is None
        for output in itertools.islice(answers(right), number, None, len(SAMPLES)):
            data = checks.make_input(PLACE, sample)
            fault = checks.fault(PLACE, sample, data, Answer(output=output))
            assert fault is None or "cannot be described" not in fault.text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [each for each in DTYPES if each not in CARRIED], ids=str)
def test_a_dtype_that_cannot_be_carried_is_named(dtype: torch.dtype) -> None:
    with pytest.raises(values.CannotCarry, match=r"dtype|dense"):
        values.Encoder().tree(torch.zeros(4, dtype=torch.uint8).view(dtype))


def test_packed_numbers_are_compared_by_their_bytes() -> None:
    left, right = filled((4,), torch.uint4, 0), filled((4,), torch.uint4, 7)
    found = first_mismatch(left, right, None)
    assert found is not None
    assert (found.wrong, found.first[0].expected, found.first[0].actual) == (4, "0", "7")
    assert first_mismatch(left, left, None) is None


def test_an_explanation_that_raises_leaves_the_verdict(
    make_checks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no words")

    monkeypatch.setattr(differences, "leaf_mismatch", broken)
    checks = make_checks("float32", "shared")
    for byte, text in ((0, "elements are wrong"), (255, "NaN or infinite in output")):
        data = checks.make_input(PLACE, SAMPLES[0])
        fault = checks.fault(PLACE, SAMPLES[0], data, Answer(output=filled((12,), torch.float32, byte)))
        assert fault.reason is Reason.DIFFERS
        assert text in fault.text
        assert fault.text.endswith("the difference cannot be described (RuntimeError: no words)")


def test_an_answer_in_the_form_of_another_input_is_wrong_in_form(make_checks: Any) -> None:
    checks = make_checks("shape of the data", "shared")
    first = checks.expected(checks.make_input(PLACE, SAMPLES[0]))
    numbers = (SampleName(input=number) for number in range(1, 20))
    for sample in numbers:
        data = checks.make_input(PLACE, sample)
        own = checks.expected(checks.make_input(PLACE, sample))
        if own.shape != first.shape:
            for byte in (0, 255):
                fault = checks.fault(
                    PLACE, sample, data, Answer(output=filled(first.shape, first.dtype, byte))
                )
                assert fault.reason is Reason.FORM
                assert fault.text == f"output has shape {list(first.shape)}; expected {list(own.shape)}"
            return
    raise AssertionError("no input has an answer of another shape")


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (torch.tensor([True, False]), torch.tensor([2, 0])),
        (torch.tensor([1, 2], dtype=torch.int32), torch.tensor([1, 2 + 2**32])),
        (torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([1, -1], dtype=torch.int16)),
        (torch.tensor([1.0], dtype=torch.float16), torch.tensor([1e300], dtype=torch.float64)),
        (torch.tensor([1.0], dtype=torch.float32), torch.tensor([-1e300], dtype=torch.float64)),
    ],
)
def test_an_element_without_a_place_in_the_references_dtype_is_refused(
    expected: torch.Tensor, actual: torch.Tensor
) -> None:
    """A checker may convert it: then it wraps, or becomes infinite."""
    assert "has an element that is" in structure_fault(expected, actual, dtypes=None)


def test_a_mask_of_whole_numbers_reaches_the_checker_as_a_mask() -> None:
    """As an index, numbers would choose elements, and not hide some."""
    made = fitted(torch.tensor([True, False]), torch.tensor([1, 0]), None)
    assert made.dtype is torch.bool
    assert made.tolist() == [True, False]


@pytest.mark.parametrize("large", [1.0, 60_000.0, math.inf])
def test_a_wider_answer_that_the_references_dtype_can_hold_is_left_as_it_is(large: float) -> None:
    answer = torch.tensor([large], dtype=torch.float64)
    assert fitted(torch.tensor([1.0], dtype=torch.float16), answer, None) is answer
