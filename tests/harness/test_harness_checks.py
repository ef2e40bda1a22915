"""What the judge holds against an answer: form, sharing of memory, values, old inputs, twins."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_device import SharedMemory

from builders import make_spec
from kernelcup_harness.core import ranges
from kernelcup_harness.core.answer import NOISE, Answer
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.device import memory
from kernelcup_harness.doubt import changes, near_twins
from kernelcup_harness.doubt.near_twins import NearTwins
from kernelcup_harness.explain.differences import first_mismatch
from kernelcup_harness.protocol import CheckStyle, Reason, SampleName, StageName
from kernelcup_harness.ranks.leader import first
from kernelcup_harness.wire import aliasing, records

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
        more = NearTwins(task, SECRET)
        return Checks(task, SECRET, make_spec(**options), more=more, explain=first_mismatch)

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


def test_each_kind_of_fault_has_its_reason(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert reason(checks, right(checks)[:-1]) is Reason.FORM
    assert reason(checks, [right(checks)]) is Reason.FORM
    assert reason(checks, right(checks) + 1) is Reason.DIFFERS
    assert reason(checks, right(checks)) is Reason.NONE
    # That input was answered rightly before.
    assert reason(checks, right(checks) + 1) is Reason.REPEATED


def test_a_twin_differs_in_one_element_and_the_others_answer_to_it_is_told(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    plain, twin = checks.make_input(PLACE, FIRST), checks.make_input(PLACE, TWIN)
    assert int((plain != twin).sum()) == 1
    assert torch.equal(twin, checks.make_input(PLACE, TWIN))
    assert list(checks.twins(PLACE)) == [True]
    assert reason(checks, right(checks), TWIN) is Reason.NEAR_TWIN
    assert reason(checks, right(checks, TWIN), TWIN) is Reason.NONE


def test_a_twin_that_the_tasks_own_reference_fails_is_none(make_checks: Any) -> None:
    assert not make_checks(PICKY).twins(PLACE)


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


# Another dtype

TAKES_BOTH = DOUBLE.replace("return data * 2", "return data.double() * 2").replace(
    "torch.equal(ref_kernel(data), output)",
    "torch.allclose(ref_kernel(data), output.double(), rtol=1e-6)",
)


def test_another_dtype_is_right_where_the_checker_takes_it(make_checks: Any) -> None:
    checks = make_checks(TAKES_BOTH)
    assert reason(checks, right(checks)) is Reason.NONE
    assert reason(checks, right(checks).double()) is Reason.NONE
    assert reason(checks, right(checks).half()) is not Reason.NONE
    assert reason(make_checks(TAKES_BOTH, dtypes=[]), right(checks)) is Reason.FORM


@pytest.mark.parametrize(
    "check", ["torch.allclose(ref_kernel(data), output)", "torch.equal(data, output / 3)"]
)
def test_a_dtype_that_the_checker_does_not_take_is_wrong_and_named(make_checks: Any, check: str) -> None:
    checks = make_checks(DOUBLE.replace("torch.equal(ref_kernel(data), output)", check))
    data = checks.make_input(PLACE, FIRST)
    fault = checks.fault(PLACE, FIRST, data, Answer(output=right(checks).double()))
    assert fault is not None
    assert fault.reason is Reason.DIFFERS
    assert "output has dtype torch.float64; expected torch.float32" in fault.text


# Who says it

MATCHED = """
import torch
from kernelcup.tasks.shared.utils import make_match_reference
def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))
def ref_kernel(data):
    return data * 2
matches = make_match_reference(ref_kernel)
def check_implementation(data, output):
    assert not (output == 7).any(), "seven"
    return matches(data, output)
"""
MATCHED_IN_PLACE = MATCHED.replace("return data * 2", "data *= 2").replace(
    "make_match_reference(ref_kernel)", "make_match_reference(lambda data: data * 2)"
)


@pytest.mark.parametrize(
    ("text", "sample", "answer", "reason", "judge"),
    [
        (MATCHED, FIRST, lambda data: data * 2 + 1, Reason.DIFFERS, ""),
        (
            MATCHED,
            TWIN,
            lambda data: data * 2 + 1,
            Reason.NEAR_TWIN,
            "on an input that differs from an earlier one ",
        ),
        (
            MATCHED,
            SampleName(input=1),
            lambda data: data * 2 + 1,
            Reason.REPEATED,
            "on an input that was answered ",
        ),
        (
            MATCHED,
            FIRST,
            lambda data: (data + 1).double(),
            Reason.DIFFERS,
            "output has dtype torch.float64; ",
        ),
        (MATCHED, FIRST, lambda data: data * 1e30, Reason.RANGE, "far outside of "),
        (MATCHED, FIRST, lambda data: data * 2 + torch.nan, Reason.DIFFERS, "NaN or infinite in output"),
        (
            MATCHED,
            FIRST,
            lambda data: data * 0 + 7,
            Reason.DIFFERS,
            "the checker cannot work with this output: ",
        ),
        (MATCHED_IN_PLACE, FIRST, lambda data: data, Reason.DIFFERS, "this task works in place: "),
    ],
    ids=["checker", "near_twin", "repeated", "dtype", "range", "nan", "checker_fails", "in_place"],
)
def test_words_of_the_judge_are_told_apart_from_the_lines_of_the_checker(
    make_checks: Any, text: str, sample: SampleName, answer: Callable[[Any], Any], reason: Reason, judge: str
) -> None:
    checks = make_checks(text)
    if reason is Reason.REPEATED:
        data = checks.make_input(PLACE, sample)
        assert checks.fault(PLACE, sample, data, Answer(output=data * 2)) is None
    data = checks.make_input(PLACE, sample)
    fault = checks.fault(PLACE, sample, data, Answer(output=answer(data.clone())))
    assert (fault.reason, fault.mismatch is not None) == (reason, True)
    own = fault.text.removesuffix(fault.quoted)
    assert judge in own
    assert bool(judge) is bool(own)
    assert "elements are wrong" not in own
    assert fault.quoted.startswith("output: ") or not fault.quoted
    rank = first([None, fault])
    assert rank.text.removesuffix(rank.quoted) == f"GPU rank 1: {own}"


def test_what_would_broadcast_is_refused_before_the_checker_is_asked(make_checks: Any) -> None:
    checks = make_checks(TAKES_BOTH.replace("if torch.allclose(", "if True or torch.allclose("))
    for answer in (torch.ones(1), torch.ones(1, 64), [right(checks)], right(checks).to("meta")):
        assert reason(checks, answer) is Reason.FORM


# Memory that the generator leaves as it is

EMPTIES = {
    "empty": "torch.empty(size)",
    "empty_like": "torch.empty_like(made)",
    "empty_strided": "torch.empty_strided((size,), (1,))",
    "new_empty": "made.new_empty(size)",
    "Tensor": "torch.Tensor(size)",
    "resize_": "torch.empty(0).resize_(size)",
    "half": "torch.empty(size, dtype=torch.float16)",
    "eight bits": "torch.empty(size, dtype=torch.float8_e4m3fn)",
    "whole": "torch.empty(size, dtype=torch.int64)",
    "truth": "torch.empty(size, dtype=torch.bool)",
}


@pytest.mark.parametrize("how", ["empty", "empty_like", "empty_strided", "new_empty", "Tensor"])
def test_an_earlier_answer_is_never_found_in_the_memory_for_the_output(make_checks: Any, how: str) -> None:
    checks = make_checks(WRITES_OUTPUT.replace("torch.empty(size)", EMPTIES[how]))
    place = Place(StageName.RANKED, 0, {"size": 5000})
    answers, found = [], 0
    for number in range(40):
        sample = SampleName(input=number)
        data = checks.make_input(place, sample)
        found += any(torch.equal(data[1], each) for each in answers)
        answers.append((data[0] * 2).clone())
        assert checks.fault(place, sample, data, Answer(output=data[0] * 2)) is None
        assert checks.expected(checks.make_input(place, sample)) is not None
    assert found == 0


@pytest.mark.parametrize(
    ("text", "how"),
    [*((OUTPUT_GIVEN, how) for how in EMPTIES), (WRITES_OUTPUT, "empty"), (WRITES_OUTPUT, "Tensor")],
)
def test_a_place_that_is_only_written_has_noise_that_the_seed_gives(
    make_checks: Any, text: str, how: str
) -> None:
    checks = make_checks(text.replace("torch.empty(size)", EMPTIES[how]))
    if how == "resize_":
        assert not checks.make_input(PLACE, FIRST)[1].any()
        return
    first, again, other = (checks.make_input(PLACE, SampleName(input=n))[1] for n in (0, 0, 1))
    bits = [each.view(torch.uint8) for each in (first, again, other)]
    assert torch.equal(bits[0], bits[1])
    assert not torch.equal(bits[0], bits[2])
    assert first.is_floating_point() or bool((first.long() < 2).all())


@pytest.mark.parametrize(
    "reads",
    ["data[0] * 2 + data[1]", "data[1].add_(data[0])", "torch.from_numpy(data[1].numpy() + data[0].numpy())"],
)
def test_memory_that_the_reference_reads_is_zero(make_checks: Any, reads: str) -> None:
    text = OUTPUT_GIVEN.replace("return data[0] * 2", f"return {reads}")
    text = text.replace("torch.equal(data[0] * 2, output)", "torch.equal(ref_kernel(data), output)")
    checks = make_checks(text)
    junk = [torch.full((64,), 7.0) for _ in range(50)]
    del junk
    for number in range(20):
        assert not checks.make_input(PLACE, SampleName(input=number))[1].any()


def test_what_the_generator_has_written_is_left_alone(make_checks: Any) -> None:
    for wrote in (
        "torch.empty(size).zero_()",
        "torch.zeros(size)",
        "torch.empty(size).normal_()",
        "rest(size)",
    ):
        text = OUTPUT_GIVEN.replace("torch.empty(size)", wrote)
        text += (
            "def rest(size):\n    made = torch.empty(2 * size)\n    made[:9] = 1\n    return made[:size]\n"
        )
        first, again = (make_checks(text).make_input(PLACE, FIRST)[1] for _ in range(2))
        assert torch.equal(first, again)
        if "zero" in wrote:
            assert not first.any()
        if "rest" in wrote:
            assert first.tolist() == [1.0] * 9 + [0.0] * 55


# What is not finite

COUNTS_ERRORS = DOUBLE.replace(
    "torch.equal(ref_kernel(data), output)", "not ((ref_kernel(data) - output).abs() > 1e-4).any()"
)
MASKED = COUNTS_ERRORS.replace("return data * 2", "return torch.log(data * 2)").replace("not ", "True or ")
NO_REFERENCE = COUNTS_ERRORS.replace("ref_kernel", "twice")
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.complex64)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_an_answer_that_is_not_finite_is_wrong_though_the_checker_accepts_it(
    make_checks: Any, number: str
) -> None:
    checks = make_checks(COUNTS_ERRORS.replace("1e-4", "float('inf')"))
    answer = right(checks)
    answer[5] = float(number)
    assert reason(checks, answer) is Reason.DIFFERS
    assert reason(checks, right(checks) + 1) is Reason.NONE


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_is_wrong_in_every_dtype_and_every_part_of_an_answer(
    make_checks: Any, dtype: torch.dtype
) -> None:
    checks = make_checks(
        COUNTS_ERRORS.replace(
            "return data * 2", f"return {{'a': [data], 'b': data.to({dtype}), 'n': 1.5}}"
        ).replace("not ((ref_kernel(data) - output).abs() > 1e-4).any()", "True")
    )
    answer = checks.expected(checks.make_input(PLACE, FIRST))
    assert reason(checks, answer) is Reason.NONE
    wrong = answer["b"].to(torch.complex64 if dtype.is_complex else torch.float32)
    wrong[3] = float("nan")
    assert reason(checks, {**answer, "b": wrong.to(dtype)}) is Reason.REPEATED
    assert reason(checks, {**answer, "n": float("nan")}) is Reason.REPEATED


def test_what_the_reference_makes_infinite_or_nan_and_no_more_is_left_to_the_checker(
    make_checks: Any,
) -> None:
    checks = make_checks(MASKED)
    answer = checks.expected(checks.make_input(PLACE, FIRST))
    assert answer.isnan().any()
    assert reason(checks, answer) is Reason.NONE
    assert reason(checks, torch.where(answer.isnan(), float("inf"), answer)) is Reason.NONE
    answer[int(answer.isfinite().nonzero()[0])] = float("nan")
    assert reason(checks, answer) is Reason.REPEATED


def test_a_task_may_leave_what_is_not_finite_to_its_checker(make_checks: Any) -> None:
    answer = right(make_checks(COUNTS_ERRORS)) * float("nan")
    assert reason(make_checks(COUNTS_ERRORS), answer) is Reason.DIFFERS
    assert reason(make_checks(COUNTS_ERRORS, non_finite=True), answer) is Reason.NONE
    # Without a reference nothing says that a checker is right to accept it, but the task.
    assert reason(make_checks(NO_REFERENCE), answer) is Reason.DIFFERS
    assert reason(make_checks(NO_REFERENCE, non_finite=True), answer) is Reason.NONE


def test_the_text_of_a_wrong_answer_counts_what_is_not_finite(make_checks: Any) -> None:
    checks = make_checks(COUNTS_ERRORS)
    place = Place(StageName.RANKED, 0, {"size": 4})
    answer = checks.make_input(place, FIRST) * 2
    answer[:3] = float("nan")
    fault = checks.fault(place, FIRST, checks.make_input(place, FIRST), Answer(output=answer))
    assert fault is not None
    assert "NaN or infinite in output, where the reference's answer is finite" in fault.text
    found = fault.mismatch
    assert found is not None
    assert (found.wrong, found.total, found.kinds, found.largest_error) == (3, 4, ", 3 NaN", None)


def test_a_large_answer_is_looked_at_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "CHUNK", 7)
    for place in (0, 6, 7, 99):
        answer = torch.ones(100)
        assert near_twins.is_finite(answer)
        answer[place] = float("inf")
        assert not near_twins.is_finite(answer)
        assert ranges.first_unexpected(torch.ones(100), answer)
        assert not ranges.first_unexpected(answer, answer)
    assert near_twins.is_finite(torch.empty(0))


# Shared memory


def test_an_answer_at_the_address_of_an_input_is_refused_unless_the_task_allows_it(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    assert reason(checks, right(checks), shared_inputs=(0,)) is Reason.ALIASED
    lenient = make_checks(DOUBLE, aliasing=True)
    assert reason(lenient, right(lenient), shared_inputs=(0,)) is Reason.NONE


def test_an_answer_that_the_judge_has_overwritten_with_its_input_is_refused(make_checks: Any) -> None:
    checks = make_checks(DOUBLE)
    noise = torch.full((4 * 64,), NOISE, dtype=torch.uint8).view(torch.float32)
    assert reason(checks, noise, overwritten=True) is Reason.ALIASED
    assert reason(checks, noise) is Reason.RANGE
    assert reason(checks, right(checks), overwritten=True) is Reason.NONE


@pytest.mark.parametrize(
    ("text", "private"),
    [
        (DOUBLE, {0}),
        (OUTPUT_GIVEN, {0}),
        (WRITES_OUTPUT, {0}),
        (OUTPUT_GIVEN.replace("torch.empty(size)", "torch.zeros(size)"), {0}),
        (OUTPUT_GIVEN.replace("return data[0] * 2", "return torch.add(data[0], data[0])"), {0}),
        (OUTPUT_GIVEN.replace("return data[0] * 2", "return torch.zeros_like(data[1]) + data[0] * 2"), {0}),
        (WRITES_OUTPUT.replace("    return data[1]\n", ""), set()),
        (DOUBLE.replace("return data * 2", "return data.mul_(2)"), set()),
    ],
)
def test_what_the_reference_reads_and_does_not_answer_with_is_private(
    make_checks: Any, text: str, private: set[int]
) -> None:
    form = make_checks(text).form(PLACE)
    assert form is not None
    assert form.private == private
    form = make_checks(text, aliasing=True).form(PLACE)
    assert form is not None
    assert not form.private


def test_an_answer_in_the_place_that_was_given_for_it_is_right(make_checks: Any) -> None:
    """The reference returns a tensor of its own, and never looks at what was in the other."""
    for text in (OUTPUT_GIVEN, WRITES_OUTPUT):
        checks = make_checks(text)
        assert reason(checks, right(checks), shared_inputs=(1,)) is Reason.NONE
        assert reason(checks, right(checks), shared_inputs=(0,)) is Reason.ALIASED


def test_memory_is_shared_by_views_and_not_by_copies() -> None:
    data = torch.arange(12.0).reshape(3, 4)
    other = torch.zeros(3)
    outputs = [data[1:], data.t(), data.clone(), data[:0], other]
    assert aliasing.shared(outputs, [other, data]) == {0, 1}
    assert aliasing.shared(outputs[2:4], [other, data]) == set()


def test_a_tensor_cannot_lie_about_where_it_is() -> None:
    data = torch.zeros(4)
    data.data_ptr = lambda: 0  # type: ignore[method-assign]
    data.detach = lambda: torch.ones(4)  # type: ignore[method-assign]
    assert aliasing.shared(aliasing.leaves({"x": [data]}), [data]) == {0}


# Tasks that work in place

IN_PLACE = """
import torch
def generate_input(size, seed):
    made = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return made, size, torch.zeros(size), torch.empty(size)
def ref_kernel(data):
    data[2][...] = data[0] * 2
def check_implementation(data, output):
    given, size, twice, spare = output
    if not torch.equal(data[0], given) or size != data[1] or type(output) is not tuple:
        return "not the input"
    return "" if torch.equal(data[0] * 2, twice) else "not the double"
"""


def in_place(checks: Checks, sample: SampleName = FIRST, **changes: Any) -> Any:
    """Return the right answer of the task in place, with some of its parts changed."""
    given, size, _, spare = checks.make_input(PLACE, sample)
    parts = {"given": given, "size": size, "twice": given * 2, "spare": spare} | changes
    return tuple(parts.values())


def told(checks: Checks, output: Any, sample: SampleName = FIRST) -> tuple[Reason, str]:
    """Return reason and text of the fault of an output."""
    fault = checks.fault(PLACE, sample, checks.make_input(PLACE, sample), Answer(output=output))
    return (Reason.NONE, "") if fault is None else (fault.reason, fault.text)


def test_an_answer_in_place_is_right_whatever_is_left_in_what_the_reference_ignores(make_checks: Any) -> None:
    checks = make_checks(IN_PLACE)
    assert told(checks, in_place(checks))[0] is Reason.NONE
    assert told(checks, in_place(checks, spare=torch.ones(64)))[0] is Reason.NONE


def test_a_scalar_and_a_container_that_a_call_changed_never_reach_the_checker(make_checks: Any) -> None:
    checks = make_checks(IN_PLACE)
    assert told(checks, in_place(checks, size=3))[0] is Reason.NONE
    assert told(checks, list(in_place(checks)))[0] is Reason.NONE
    assert told(checks, in_place(checks)[:3])[0] is Reason.FORM


def test_the_checker_gets_the_judges_own_tensors_but_for_what_the_reference_writes(make_checks: Any) -> None:
    text = IN_PLACE.replace("given, size, twice", "SEEN.append(output)\n    given, size, twice", 1)
    checks = make_checks("SEEN = []\n" + text)
    answer = in_place(checks, spare=torch.full((64,), 7.0))
    assert told(checks, answer)[0] is Reason.NONE
    seen = checks._task._module.SEEN[-1]
    assert seen[2].data_ptr() == answer[2].data_ptr()
    assert torch.equal(seen[3], checks.make_input(PLACE, FIRST)[3])


def test_a_call_in_place_that_changes_what_is_only_read_is_refused(make_checks: Any) -> None:
    checks = make_checks(IN_PLACE)
    given = checks.make_input(PLACE, FIRST)[0]
    reason, text = told(checks, in_place(checks, given=given + 1, twice=given * 2 + 2))
    assert (reason, text) == (
        Reason.WRITES_INPUT,
        "tensor 0 of the input was changed, which the reference only reads",
    )


def test_a_call_that_left_everything_as_it_was_learns_where_the_answer_belongs(make_checks: Any) -> None:
    checks = make_checks(IN_PLACE)
    reason, text = told(checks, checks.make_input(PLACE, FIRST))
    assert reason is Reason.DIFFERS
    assert text.startswith(
        "this task works in place: the answer has to be written into data[2], which was not changed\n"
    )
    assert "in place" not in told(checks, in_place(checks, twice=torch.ones(64)))[1]


WRITES_EQUALS = IN_PLACE.replace("data[2][...] = data[0] * 2", "data[2][...] = 0").replace(
    "torch.equal(data[0] * 2, twice)", "bool((twice.abs() < 1).all())"
)
WRITES_SOMETIMES = IN_PLACE.replace(
    "data[2][...] = data[0] * 2", "data[2][...] = data[0] * 2\n    if data[0][0] > 0: data[0][...] = 0"
).replace(
    "not torch.equal(data[0], given)", "not torch.equal(torch.where(data[0][0] > 0, 0, data[0]), given)"
)


def test_a_tensor_that_the_reference_writes_with_equal_bytes_is_written(make_checks: Any) -> None:
    checks = make_checks(WRITES_EQUALS)
    assert told(checks, in_place(checks, twice=torch.full((64,), 0.5)))[0] is Reason.NONE
    assert told(checks, in_place(checks, twice=torch.full((64,), 1.5)))[0] is Reason.REPEATED


def test_what_is_written_for_some_inputs_only_is_written_for_these(make_checks: Any) -> None:
    checks = make_checks(WRITES_SOMETIMES)
    found = set()
    for number in range(12):
        sample = SampleName(input=number)
        right = checks.expected(checks.make_input(PLACE, sample))
        found.add(bool(right[0].any()))
        assert told(checks, right, sample)[0] is Reason.NONE
    assert found == {True, False}


def test_a_reference_that_changes_the_tensors_of_its_input_is_the_tasks_fault(make_checks: Any) -> None:
    text = IN_PLACE.replace("return made, size,", "return [made, size,").replace("torch.empty(size)", "0.0]")
    checks = make_checks(text.replace("data[2][...] =", "data[3] ="))
    with pytest.raises(TaskFault, match="adds or removes tensors"):
        checks.form(PLACE)


def test_a_reference_may_put_another_tensor_in_the_place_of_one(make_checks: Any) -> None:
    checks = make_checks(
        IN_PLACE.replace("return made, size,", "return [made, size,")
        .replace("torch.empty(size)", "torch.empty(size)]")
        .replace("data[2][...] = data[0] * 2", "data[2] = data[0] * 2")
        .replace("is not tuple", "is not list")
    )
    assert told(checks, in_place(checks))[0] is Reason.NONE
    assert told(checks, in_place(checks, twice=torch.ones(64)))[0] is Reason.REPEATED


@pytest.mark.parametrize("text", [DOUBLE, IN_PLACE, OUTPUT_GIVEN, WRITES_OUTPUT, WRITES_EQUALS, NO_REFERENCE])
def test_calls_may_write_what_the_reference_writes_or_ignores(make_checks: Any, text: str) -> None:
    written = {
        DOUBLE: set(),
        IN_PLACE: {1, 2},
        OUTPUT_GIVEN: {1},
        WRITES_OUTPUT: {1},
        WRITES_EQUALS: {1, 2},
        NO_REFERENCE: {0},
    }
    assert make_checks(text).writable(PLACE) == written[text]


# The form of each answer

TAKES_ALL = DOUBLE.replace(
    'return "" if torch.equal(ref_kernel(data), output) else "not the double"', 'return ""'
)
RAGGED = TAKES_ALL.replace("torch.randn(size, ", "torch.randn(size + seed % 5, ")
POSITIVE = TAKES_ALL.replace("return data * 2", "return data[data > 0] * 2")
CALLED = "CALLS = []\n" + TAKES_ALL.replace("return data * 2", "CALLS.append(1); return data * 2")


@pytest.mark.parametrize("text", [RAGGED, POSITIVE])
def test_no_answer_in_the_form_of_another_input_reaches_the_checker(make_checks: Any, text: str) -> None:
    checks = make_checks(text)
    rights = [checks.expected(checks.make_input(PLACE, SampleName(input=n))) for n in range(12)]
    refused = 0
    for number, own in enumerate(rights):
        sample = SampleName(input=number)
        for other in rights:
            is_form = other.shape == own.shape
            assert told(checks, other, sample)[0] is (Reason.NONE if is_form else Reason.FORM)
            refused += not is_form
    assert refused > 50


def test_a_form_that_two_inputs_agree_in_costs_no_further_call_of_the_reference(make_checks: Any) -> None:
    checks = make_checks(CALLED)
    calls = checks._task._module.CALLS
    for number in range(12):
        sample = SampleName(input=number)
        assert told(checks, torch.zeros(64), sample)[0] is Reason.NONE
        if number == 1:
            before = len(calls)
    assert len(calls) == before
    assert told(checks, torch.zeros(65), sample)[0] is Reason.FORM
    assert len(calls) == before + 1


def test_an_input_of_another_shape_has_a_form_of_its_own(make_checks: Any) -> None:
    text = RAGGED.replace("size + seed % 5", "size + (seed % 7 == 0)")
    checks = make_checks(text)
    for number in range(40):
        sample = SampleName(input=number)
        data = checks.make_input(PLACE, sample)
        assert told(checks, torch.zeros(129 - len(data)), sample)[0] is Reason.FORM
        assert told(checks, torch.zeros(len(data)), sample)[0] is Reason.NONE


def test_the_checker_gets_kinds_that_the_reference_returns_and_no_others(make_checks: Any) -> None:
    text = DOUBLE.replace(
        "return data * 2", "return (data * 2, {'n': 3, 'mean': float(data.mean())})"
    ).replace(
        'return "" if torch.equal(ref_kernel(data), output) else "not the double"',
        "twice, rest = output\n"
        "    kinds = type(output), type(rest), type(rest['n']), type(rest['mean'])\n"
        '    return "" if kinds == (tuple, dict, int, float) else str(kinds)',
    )
    checks = make_checks(text)
    for output in (
        (right(checks), {"n": 3, "mean": 0.5}),
        [right(checks), {"mean": torch.ones(1), "n": 3.0}],
        [right(checks).numpy(), {"mean": np.float32(2), "n": np.int8(3)}],
        records.Fields(a=right(checks), b=records.Fields(n=torch.tensor(3), mean=1)),
    ):
        assert told(checks, output) == (Reason.NONE, "")


# Twins


SEVERAL = """
import torch
def generate_input(size, seed):
    g = torch.Generator().manual_seed(seed)
    made = {
        "data": torch.randn(size, generator=g),
        "order": torch.rand(size, generator=g).sort().values,
        "scale": torch.full((size,), 0.5),
        "bias": torch.zeros(size),
        "index": torch.randint(0, size, (size,), generator=g),
        "spare": torch.randn(2 * size, generator=g),
        "given": torch.randn(size, generator=g),
        "zeroed": torch.zeros(size),
    }
    return made
def ref_kernel(data):
    read = data["data"] * data["order"] * data["scale"] + data["bias"] + data["data"][data["index"]]
    data["given"][...] = read
    return read
def check_implementation(data, output):
    return "" if torch.equal(ref_kernel(data), output) else "wrong"
"""
READ = ["data", "order", "scale", "bias", "index"]


def twins_of(checks: Checks, place: Place = PLACE, number: int = 0) -> list[SampleName]:
    """Return the names of all twins of an input."""
    return [SampleName(input=number, twin=True, part=part) for part in range(len(checks.twins(place)))]


def changed(checks: Checks, place: Place = PLACE, number: int = 0) -> dict[str, int]:
    """Return in how many elements the twin of each named tensor differs; each twin differs in one tensor only."""
    plain, found = checks.make_input(place, SampleName(input=number)), dict[str, int]()
    for name in twins_of(checks, place, number):
        twin = checks.make_input(place, name)
        ((tensor, count),) = (
            (name, count) for name in plain if (count := int((plain[name] != twin[name]).sum()))
        )
        assert tensor not in found
        found[tensor] = count
    return found


@pytest.mark.parametrize("number", range(4))
def test_each_tensor_that_is_read_has_a_twin_and_no_other(make_checks: Any, number: int) -> None:
    assert changed(make_checks(SEVERAL), number=number) == dict.fromkeys(READ, 1)


@pytest.mark.parametrize("kept", ["bias", "scale", "index"])
def test_each_tensor_that_is_read_is_wrong_to_leave_out(make_checks: Any, kept: str) -> None:
    checks = make_checks(SEVERAL)
    plain = checks.make_input(PLACE, FIRST)
    found = {}
    for name in twins_of(checks):
        data = checks.make_input(PLACE, name)
        (tensor,) = (each for each in data if not torch.equal(data[each], plain[each]))
        data[kept] = plain[kept]
        found[tensor] = reason(checks, checks.expected(data), name)
        assert reason(checks, checks.expected(checks.make_input(PLACE, name)), name) is Reason.NONE
    assert found == {each: Reason.NEAR_TWIN if each == kept else Reason.NONE for each in READ}


def test_the_text_names_the_element_that_was_changed(make_checks: Any) -> None:
    checks = make_checks(SEVERAL)
    plain = checks.make_input(PLACE, FIRST)
    for name in twins_of(checks):
        data, told = checks.make_input(PLACE, name), checks.make_input(PLACE, name)
        (tensor,) = (each for each in data if not torch.equal(data[each], plain[each]))
        (at,) = (plain[tensor] != told[tensor]).nonzero().tolist()
        answer = Answer(output=checks.expected(checks.make_input(PLACE, FIRST)))
        fault = checks.fault(PLACE, name, data, answer)
        ends = [f"{each[tensor][tuple(at)].item():.9g}" for each in (plain, told)]
        assert fault is not None
        assert fault.text.startswith(
            "on an input that differs from an earlier one in one element of "
            f"`data['{tensor}']` (at {at}: {ends[0]} -> {ends[1]}): wrong"
        )


COUPLED = """
import torch
def generate_input(size, seed):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (size,), generator=g)
    offsets = torch.cumsum(lengths, 0) - lengths
    made = {"data": torch.randn(int(lengths.sum()), generator=g), "offsets": offsets, "lengths": lengths}
    return made
def ref_kernel(data):
    pairs = zip(data["offsets"].tolist(), data["lengths"].tolist())
    return torch.stack([data["data"][o : o + n].sum() for o, n in pairs])
def check_implementation(data, output):
    return torch.allclose(ref_kernel(data), output, atol=1e-5)
"""
"""A task whose tensors of integers have to agree."""


def by_starts(data: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sum ragged rows without their lengths."""
    ends = [*data["offsets"].tolist(), len(data["data"])]
    return torch.stack([data["data"][begin:end].sum() for begin, end in itertools.pairwise(ends)])


def reasons(checks: Checks, kernel: Callable[[Any], Any]) -> list[Reason]:
    """Return the reasons against a kernel's answers to all twins of the first input."""
    return [reason(checks, kernel(checks.make_input(PLACE, name)), name) for name in twins_of(checks)]


def test_tensors_of_integers_that_have_to_agree_are_no_reason_to_refuse(make_checks: Any) -> None:
    checks = make_checks(COUPLED)
    assert list(checks.twins(PLACE)) == [True, False, False]
    assert reasons(checks, checks.expected) == [Reason.NONE] * 3
    assert not checks.remarks
    assert reasons(checks, by_starts) == [Reason.NONE] * 3
    assert "one element of `data['" in checks.remarks[0]
    assert "near_twins: false" in checks.remarks[0]


def by_fingerprint(checks: Checks, print_of: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Return a kernel that answers again what it answered to the same fingerprint, the first input's to begin with."""
    first = checks.make_input(PLACE, FIRST)
    known = {print_of(first): checks.expected(first)}
    return lambda data: known.setdefault(print_of(data), checks.expected(data))


@pytest.mark.parametrize("tensors", [["data"], ["offsets"], ["lengths"], ["offsets", "lengths"]])
def test_who_recognises_an_input_by_a_few_elements_is_refused(make_checks: Any, tensors: list[str]) -> None:
    checks = make_checks(COUPLED)
    kernel = by_fingerprint(checks, lambda data: [data[name][:2].tolist() for name in tensors].__repr__())
    assert reasons(checks, kernel)[0] is Reason.NEAR_TWIN


def test_who_knows_all_floats_of_an_input_is_excused_and_met_no_such_input_before(make_checks: Any) -> None:
    """No timed input has the floats of another one."""
    checks = make_checks(COUPLED)
    kernel = by_fingerprint(checks, lambda data: repr(data["data"].tolist()))
    assert reasons(checks, kernel) == [Reason.NONE] * 3
    fresh = [checks.make_input(PLACE, SampleName(input=number)) for number in range(1, 9)]
    assert all(torch.equal(kernel(data), checks.expected(data)) for data in fresh)


def test_an_input_of_integers_alone_has_no_twin_that_is_excused(make_checks: Any) -> None:
    whole = "torch.randint(99, (int(lengths.sum()),)"
    checks = make_checks(COUPLED.replace("torch.randn(int(lengths.sum())", whole))
    assert list(checks.twins(PLACE)) == [True] * 3
    assert Reason.NEAR_TWIN in reasons(checks, by_starts)


def test_where_only_integers_differ_from_input_to_input_every_twin_counts(make_checks: Any) -> None:
    """Else answers kept by the constant and a few integers would be right wherever a twin counts."""
    values = "torch.randn(int(lengths.sum()), generator=g)"
    whole = "torch.randint(99, (600,), generator=g), 'scale': torch.full((1,), 0.5)"
    text = COUPLED.replace(values, whole).replace('data["data"][o', 'data["scale"][0] * data["data"][o')
    assert list(make_checks(text).twins(PLACE)) == [True] * 4
    drawn = text.replace("torch.full((1,), 0.5)", "torch.rand(1, generator=g)")
    assert list(make_checks(drawn).twins(PLACE)) == [True, False, False, False]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
def test_narrow_integers_are_data_and_count(make_checks: Any, dtype: str) -> None:
    checks = make_checks(
        COUPLED.replace("return made", f'made["lengths"] = lengths.to(torch.{dtype}); return made')
    )
    assert all(checks.twins(PLACE))


def test_of_many_tensors_several_change_in_one_twin(make_checks: Any) -> None:
    text = DOUBLE.replace("return torch.randn(size, ", "return [torch.randn(size, ").replace(
        "(seed))\n", "(seed + n)) for n in range(20)]\n", 1
    )
    checks = make_checks(text.replace("data * 2", "sum(data)"))
    plain = checks.make_input(PLACE, FIRST)
    twins = [checks.make_input(PLACE, name) for name in twins_of(checks)]
    changed = [[n for n in range(20) if not torch.equal(twin[n], plain[n])] for twin in twins]
    assert changed == [list(range(part, 20, 8)) for part in range(8)]


def test_a_reference_that_torch_shows_nothing_of_is_tried_tensor_by_tensor(make_checks: Any) -> None:
    hidden = SEVERAL.replace("def ref_kernel(data):\n", "def ref_kernel(given):\n    data = copied(given)\n")
    hidden = hidden.replace('data["given"][...] = read\n', 'given["given"].numpy()[...] = read.numpy()\n')
    copied = (
        "def copied(data):\n    return {k: torch.from_numpy(v.numpy().copy()) for k, v in data.items()}\n"
    )
    assert changed(make_checks(hidden + copied)) == dict.fromkeys(READ, 1)


def test_a_copy_that_the_reference_ignores_keeps_both_as_they_are(make_checks: Any) -> None:
    """Submissions may read the copy, in whatever order it is."""
    text = SEVERAL.replace("made = {", "made = {").replace(
        "    return made\n", '    made["spare"] = made["data"].flip(0).clone()\n    return made\n'
    )
    assert changed(make_checks(text)) == dict.fromkeys(READ[1:], 1)


def test_a_tensor_whose_change_breaks_the_task_is_left_out(make_checks: Any) -> None:
    text = SEVERAL.replace(
        'return "" if', 'return "bad scale" if data["scale"].unique().numel() > 1 else "" if'
    )
    assert changed(make_checks(text)) == dict.fromkeys([each for each in READ if each != "scale"], 1)


def test_a_twin_on_which_the_reference_is_not_finite_is_none(make_checks: Any) -> None:
    text = SEVERAL.replace('* data["scale"]', '/ data["scale"]').replace("(size,), 0.5", "(size,), 1.0")
    assert changed(make_checks(text)) == dict.fromkeys([each for each in READ if each != "scale"], 1)


def test_half_of_the_work_is_wrong_on_a_twin_of_inputs_that_repeat(make_checks: Any) -> None:
    """A constant vector added to one that repeats itself: what most inputs have in common is no promise."""
    text = DOUBLE.replace("return torch.randn(size, ", "half = torch.randn(size // 2, ").replace(
        "(seed))\n", "(seed))\n    return torch.cat([half, half]), torch.ones(size), torch.randn(size)\n", 1
    )
    text = text.replace("data * 2", "data[0] + data[1]")
    checks = make_checks(text)
    for number in range(8):
        for twin in twins_of(checks, number=number):
            for keep in (slice(0, 32), slice(32, 64)):
                data = checks.make_input(PLACE, twin)
                half = (data[0] + data[1])[keep]
                assert reason(checks, torch.cat([half, half]), twin) is Reason.NEAR_TWIN


def test_a_later_twin_on_which_the_reference_fails_counts_for_nothing(make_checks: Any) -> None:
    text = DOUBLE.replace('return "" if', 'return "no input" if data[0] > 9 else "" if').replace(
        "(seed))\n", "(seed)).add_(20 if seed % 2 else 0)\n", 1
    )
    checks = make_checks(text)
    good = Place(StageName.TEST, 0, {"size": 64, "seed": 2})
    assert checks.twins(good)
    for number in range(1, 9):
        twin = SampleName(input=number, twin=True)
        data = checks.make_input(good, twin)
        fault = checks.fault(good, twin, checks.make_input(good, twin), Answer(output=data))
        assert (fault is None) is bool(data[0] > 9)


# Changes of one element


def data_like() -> torch.Tensor:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


def permutations() -> torch.Tensor:
    return torch.rand(5, 20, generator=torch.Generator().manual_seed(1)).argsort()


SPARSE = torch.where(data_like() > 1, data_like(), 0.0)
BYTES = {torch.float8_e4m3fn: torch.uint8, torch.bool: torch.uint8, torch.uint32: torch.int32}
CHANGED = {
    "data": data_like(),
    "half": data_like().half(),
    "bfloat16": data_like().bfloat16(),
    "eight bits": data_like().to(torch.float8_e4m3fn),
    "complex": data_like().to(torch.complex64) * 1j,
    "transposed": data_like()[:, :5].t(),
    "few": torch.randn(3),
    "one": torch.tensor(0.25),
    "ones": torch.ones(64),
    "a constant": torch.full((4, 4), 3.0),
    "zeros": torch.zeros(64),
    "sorted": torch.arange(64.0) ** 2,
    "sorted downwards": (torch.arange(64.0) ** 2).flip(0),
    "sorted rows": data_like().sort(dim=1).values,
    "sorted columns": data_like().sort(dim=0).values,
    "sorted whole numbers": torch.arange(0, 640, 10),
    "whole numbers": torch.randint(0, 9, (64,), generator=torch.Generator().manual_seed(1)),
    "unsigned": torch.randint(0, 9, (64,), generator=torch.Generator().manual_seed(1)).to(torch.uint32),
    "lengths": torch.full((8,), 512),
    "a mask": data_like() > 0,
    "all true": torch.ones(64, dtype=torch.bool),
    "symmetric": data_like() + data_like().t(),
    "sparse": SPARSE,
    "triangular": data_like().tril(),
}
LEFT = {
    "nothing": torch.empty(0),
    "steps": torch.arange(64),
    "a causal mask": torch.ones(8, 8).tril(),
    "lengths as a mask": torch.arange(8) < torch.tensor([[3], [5], [8]]),
    "one of each row": torch.eye(8)[torch.tensor([3, 1, 4, 1, 5])],
    "identity": torch.eye(8),
    "expanded": torch.randn(16, 1).expand(16, 8),
    "no numbers": torch.full((64,), float("nan")),
    "whole zeros": torch.zeros(64, dtype=torch.int64),
    "padding": torch.full((64,), -1),
}


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(BYTES[tensor.dtype]) if tensor.dtype in BYTES else tensor


@pytest.mark.parametrize("kind", CHANGED)
@pytest.mark.parametrize("seed", range(3))
def test_one_element_is_changed_and_stays_within_the_tensors_range(kind: str, seed: int) -> None:
    before = CHANGED[kind].clone()
    after = CHANGED[kind].clone()
    assert near_twins.change([after], lambda _leaf: random.Random(seed)) == {0}
    old, new = comparable(before), comparable(after)
    assert int((old != new).sum()) == 1
    if not before.is_complex():
        low, high = (
            (min(0, old.min()), max(1, old.max())) if old.unique().numel() == 1 else (old.min(), old.max())
        )
        assert bool(((new >= low) & (new <= high)).all())


@pytest.mark.parametrize("kind", [kind for kind in CHANGED if kind.startswith("sorted")])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_sorted_stays_sorted(kind: str, seed: int) -> None:
    after = CHANGED[kind].clone()
    assert changes.change_element(after, random.Random(seed))
    dim = 0 if kind == "sorted columns" else -1
    down = kind == "sorted downwards"
    assert torch.equal(after.sort(dim=dim, descending=down).values, after)
    assert torch.equal(after.select(dim, 0), CHANGED[kind].select(dim, 0))
    assert torch.equal(after.select(dim, -1), CHANGED[kind].select(dim, -1))


@pytest.mark.parametrize("seed", range(5))
def test_whole_numbers_stay_indices_and_permutations_permutations(seed: int) -> None:
    table = torch.randint(5, 9, (64,), generator=torch.Generator().manual_seed(seed))
    assert changes.change_element(table, random.Random(seed))
    assert bool(((table >= 5) & (table < 9)).all())
    order = permutations()
    assert changes.change_element(order, random.Random(seed))
    assert torch.equal(order.sort().values, torch.arange(20).expand(5, 20))
    assert not torch.equal(order, permutations())
    chosen = permutations()[:, :6].clone()
    assert changes.change_element(chosen, random.Random(seed))
    assert all(row.unique().numel() == 6 for row in chosen)


@pytest.mark.parametrize("kind", LEFT)
def test_what_no_other_value_fits_is_left_alone(kind: str) -> None:
    tensor = LEFT[kind]
    before = tensor.clone()
    assert not changes.change_element(tensor, random.Random(1))
    assert torch.equal(before.nan_to_num(7.0), tensor.nan_to_num(7.0))


def test_zeros_stay_where_they_are_and_symmetry_holds() -> None:
    for seed in range(5):
        for kind in ("sparse", "triangular", "symmetric"):
            after = CHANGED[kind].clone()
            assert changes.change_element(after, random.Random(seed))
            assert torch.equal(after == 0, CHANGED[kind] == 0)
            assert kind != "symmetric" or torch.equal(after, after.t())


def test_a_tensor_that_is_there_twice_is_changed_once() -> None:
    data = data_like()
    before = data.clone()
    assert near_twins.change([data, data.t(), data], lambda leaf: random.Random(leaf)) == {0}
    assert int((before != data).sum()) == 1
    assert not near_twins.change({"n": 5}, lambda _leaf: random.Random(1))


# The judge's part of the device


def test_the_judge_takes_its_part_and_leaves_some_of_what_is_free() -> None:
    device = SharedMemory()
    reservation = memory.Reservation(device)
    assert device.ours == 15
    # What was given back is taken again before the submission is loaded.
    device.ours = 0
    for _ in range(2):
        reservation.mark()
        assert device.ours == 15
    crowded = SharedMemory()
    crowded.theirs = 90
    memory.Reservation(crowded)
    assert crowded.ours == 8


def test_the_contestant_is_to_blame_above_its_part_only() -> None:
    device = SharedMemory()
    device.theirs = 3
    reservation = memory.Reservation(device)
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
    device = SharedMemory()
    reservation = memory.reserve(device)
    assert reservation is not None
    assert device.ours == 7
    device.theirs = 26
    assert reservation.is_overdrawn()
    assert memory.reserve(None) is None


def test_a_checker_takes_its_part_and_cannot_have_more() -> None:
    shares: list[float] = []
    device = SharedMemory()
    device.limit = shares.append
    memory.hold(device)
    assert (device.ours, shares) == (24, [0.25])
    device.theirs = 70
    device.ours = 0
    memory.hold(device)
    assert device.ours == 23


IMPORTS = """
import sys, torch
from kernelcup_harness.core import task, uses
with task.Emptied() as emptied:
    found = torch.empty(5)
assert emptied.left([found]) == [0] and not found.any()
with uses.Uses([found]) as used:
    found + 1
assert used.read == {0}
sys.exit("torch._dynamo" in sys.modules)
"""


@pytest.mark.jobs
def test_the_judges_modes_import_no_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


OPENS = """
import numpy as np

def generate_input(size, seed):
    return np.load("weights.npy")

def check_implementation(data, output):
    return True
"""


def test_a_file_that_the_task_does_not_list_is_named_with_where_it_belongs(make_checks: Any) -> None:
    with pytest.raises(TaskFault, match=r"No such file.*'weights.npy'\n.* belong into `data`\.$"):
        make_checks(OPENS).make_input(PLACE, FIRST)
