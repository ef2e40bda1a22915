"""What the judge holds against an answer: form, sharing of memory, values, old inputs, twins."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelcup_harness import aliasing, device_memory, twins
from kernelcup_harness.answers import Answer
from kernelcup_harness.checks import Checks, Place
from kernelcup_harness.protocol import CheckStyle, Reason, SampleName, StageName
from kernelcup_harness.task_code import TaskCode

SECRET = bytes(32)
FIRST = SampleName(input=0)
TWIN = SampleName(input=0, twin=True)
PLACE = Place(StageName.RANKED, 0, {"size": 64})

DOUBLE = """
import torch
def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    return data * 2
def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""

OUTPUT_GIVEN = """
import torch
def generate_input(size, seed):
    made = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return made, torch.empty(size)
def ref_kernel(data):
    return data[0] * 2
def check_implementation(data, output):
    return "" if torch.equal(data[0] * 2, output) else "not the double"
"""

WRITES_OUTPUT = OUTPUT_GIVEN.replace(
    "return data[0] * 2\n", "data[1][...] = data[0] * 2\n    return data[1]\n", 1
)

SAME_TWICE = DOUBLE.replace("return data * 2", "x = data * 2; return x, x").replace(
    "torch.equal(ref_kernel(data), output)", "torch.equal(data * 2, output[0])"
)
TWO_PARTS = DOUBLE.replace("return data * 2", "return data * 2, data * 2").replace(
    "torch.equal(ref_kernel(data), output)", "torch.equal(data * 2, output[0])"
)

SORTED_INPUT = DOUBLE.replace("return torch.randn", "return 5 + torch.randn").replace(
    "generator=torch.Generator().manual_seed(seed))",
    "generator=torch.Generator().manual_seed(seed)).flip(0)",
)

PICKY = """
import torch
def generate_input(size, seed):
    half = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return torch.cat([half, -half.flip(0)])
def ref_kernel(data):
    return data * 2
def check_implementation(data, output):
    if not torch.equal(data, -data.flip(0)):
        return "that is no input of mine"
    return "" if torch.equal(data * 2, output) else "wrong"
"""


@pytest.fixture
def make_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function from the text of a task to its checks."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def make(text: str, **options: Any) -> Checks:
        name = f"checked_task_{len(names)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(text)
        task = TaskCode(name, CheckStyle.DATA_OUTPUT, tmp_path)
        return Checks(task, SECRET, **({"aliasing": False} | options))

    yield make
    for name in names:
        sys.modules.pop(name, None)


def reason(checks: Checks, output: Any, sample: SampleName = FIRST, **answer: Any) -> Reason:
    """Return the reason against an output, NONE if it is right."""
    fault = checks.fault(PLACE, sample, checks.make_input(PLACE, sample), Answer(output=output, **answer))
    return Reason.NONE if fault is None else fault.reason


def right(checks: Checks, sample: SampleName = FIRST) -> torch.Tensor:
    """Return the right answer of the doubling tasks."""
    data = checks.make_input(PLACE, sample)
    return (data[0] if isinstance(data, tuple) else data) * 2


def test_the_right_answer_has_no_fault(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert reason(checks, right(checks)) is Reason.NONE


def test_each_kind_of_fault_has_its_reason(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert reason(checks, right(checks) + 1) is Reason.DIFFERS
    assert reason(checks, right(checks).double()) is Reason.FORM
    assert reason(checks, right(checks)[:-1]) is Reason.FORM
    assert reason(checks, [right(checks)]) is Reason.FORM


def test_an_input_that_was_right_before_is_told_when_it_is_wrong(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert reason(checks, right(checks) + 1) is Reason.DIFFERS
    assert reason(checks, right(checks)) is Reason.NONE
    assert reason(checks, right(checks) + 1) is Reason.REPEATED


def test_a_twin_answered_with_the_others_answer_is_told(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert checks.twin_is_input(PLACE, 0)
    assert reason(checks, right(checks), TWIN) is Reason.NEAR_TWIN
    assert reason(checks, right(checks, TWIN), TWIN) is Reason.NONE


def test_a_twin_differs_in_one_element_and_is_the_same_each_time(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    plain, twin = checks.make_input(PLACE, FIRST), checks.make_input(PLACE, TWIN)
    assert int((plain != twin).sum()) == 1
    assert torch.equal(twin, checks.make_input(PLACE, TWIN))


def test_a_twin_that_the_tasks_own_reference_fails_is_none(make_checks: Any) -> None:
    assert not make_checks(PICKY).twin_is_input(PLACE, 0)


def test_inputs_are_drawn_from_the_secret_only_where_ranked(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    public = Place(StageName.TEST, 0, {"size": 64, "seed": 5})
    again = make_checks(DOUBLE)
    again._secret = b"x" * 32
    assert torch.equal(checks.make_input(public, FIRST), again.make_input(public, FIRST))
    assert not torch.equal(checks.make_input(PLACE, FIRST), again.make_input(PLACE, FIRST))


def test_each_input_of_a_ranked_case_is_another_one(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    other_case = Place(StageName.RANKED, 1, {"size": 64})
    made = [checks.make_input(place, SampleName(input=n)) for place in (PLACE, other_case) for n in range(20)]
    assert len({each[0].item() for each in made}) == len(made)


# Shared memory


def test_an_answer_in_the_memory_of_an_input_is_refused(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert reason(checks, right(checks), shared_inputs=(0,)) is Reason.ALIASED


def test_an_answer_in_the_place_that_was_given_for_it_is_right(make_checks: Any) -> None:
    """The reference returns a tensor of its own, and never looks at what was in the other."""
    for text in (OUTPUT_GIVEN, WRITES_OUTPUT):
        checks = make_checks(text)
        assert reason(checks, right(checks), shared_inputs=(1,)) is Reason.NONE
        assert reason(checks, right(checks), shared_inputs=(0,)) is Reason.ALIASED


def test_a_task_may_say_that_memory_is_shared(make_checks: Any) -> None:
    checks = make_checks(DOUBLE, aliasing=True)
    assert reason(checks, right(checks), shared_inputs=(0,)) is Reason.NONE


def test_one_tensor_for_two_outputs_needs_a_reference_that_does_so(make_checks: Any) -> None:
    checks = make_checks(TWO_PARTS)
    answer = (right(checks), right(checks))
    assert reason(checks, answer) is Reason.NONE
    assert reason(checks, answer, repeats_itself=True) is Reason.ALIASED
    assert reason(make_checks(SAME_TWICE), answer, repeats_itself=True) is Reason.NONE


def test_memory_is_shared_by_views_and_not_by_copies() -> None:
    data = torch.arange(12.0).reshape(3, 4)
    other = torch.zeros(3)
    outputs = [data[1:], data.t(), data.clone(), data[:0], other]
    assert aliasing.shared(outputs, [other, data]) == [(0, 1), (1, 1), (4, 0)]


def test_columns_of_one_matrix_are_not_one_tensor_but_a_tensor_twice_is() -> None:
    matrix = torch.zeros(4, 6)
    assert aliasing.repeated(matrix.chunk(3, dim=1)) == []
    assert aliasing.repeated([matrix, torch.zeros(1), matrix]) == [(0, 2)]


def test_a_tensor_cannot_lie_about_where_it_is() -> None:
    data = torch.zeros(4)
    data.data_ptr = lambda: 0  # type: ignore[method-assign]
    data.detach = lambda: torch.ones(4)  # type: ignore[method-assign]
    assert aliasing.shared(aliasing.leaves({"x": [data]}), [data]) == [(0, 0)]


# Twins


def data_like() -> torch.Tensor:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("tensor", "data"),
    [
        (data_like(), True),
        (data_like().half(), True),
        (data_like().bfloat16(), True),
        (data_like().t(), True),
        (torch.arange(64), False),
        (torch.arange(64.0), False),
        (torch.arange(64.0).flip(0), False),
        (torch.ones(64), False),
        ((data_like() > 0).float(), False),
        (data_like() + data_like().t(), False),
        (torch.randn(4), False),
        (torch.randn(16, 1).expand(16, 8), False),
        (torch.full((64,), float("nan")), False),
        (torch.eye(8), False),
    ],
)
def test_only_what_looks_like_data_is_changed(tensor: torch.Tensor, data: bool) -> None:
    before = tensor.clone()
    assert twins.change_one([tensor], random.Random(1)) is data
    assert int((before != tensor).sum()) == (1 if data else int(before.isnan().sum()))


def test_a_value_without_tensors_has_no_twin() -> None:
    assert not twins.change_one({"n": 5}, random.Random(1))


# The judge's part of the device


class FakeDevice:
    """A device of 100 bytes shared with somebody else."""

    def __init__(self) -> None:
        self.ours, self.theirs = 0, 0

    def free_and_total(self) -> tuple[int, int]:
        return 100 - self.ours - self.theirs, 100

    def held(self) -> int:
        return self.ours

    def take(self, size: int) -> None:
        if size > self.free_and_total()[0]:
            raise MemoryError
        self.ours += size


def test_the_fake_device_runs_out() -> None:
    device = FakeDevice()
    device.theirs = 90
    with pytest.raises(MemoryError):
        device.take(11)
    device.take(10)
    assert device.free_and_total() == (0, 100)


def test_the_judge_takes_its_part_and_leaves_some_of_what_is_free() -> None:
    device = FakeDevice()
    device_memory.Reservation(device)
    assert device.ours == 40
    crowded = FakeDevice()
    crowded.theirs = 80
    device_memory.Reservation(crowded)
    assert crowded.ours == 16


def test_the_contestant_is_to_blame_above_its_part_only() -> None:
    device = FakeDevice()
    device.theirs = 3
    reservation = device_memory.Reservation(device)
    device.theirs = 8
    reservation.mark()
    device.theirs = 58
    assert reservation.contestant_bytes() == 50
    assert not reservation.is_overdrawn()
    device.theirs = 59
    assert reservation.is_overdrawn()
    device.take(1)
    assert reservation.contestant_bytes() == 51


def test_jobs_that_share_a_device_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELCUP_GPU_PART", "0.5")
    made: list[FakeDevice] = []

    def device() -> FakeDevice:
        made.append(FakeDevice())
        return made[0]

    reservation = device_memory.reserve(True, device)
    assert reservation is not None
    assert made[0].ours == 20
    made[0].theirs = 26
    assert reservation.is_overdrawn()


def test_without_a_gpu_nothing_is_reserved() -> None:
    assert device_memory.reserve(False) is None
    assert device_memory.reserve(True, FakeDevice) is not None
