"""How an output differs from the expected one, as it is told to a person."""

from __future__ import annotations

import collections
import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from kernelcup_harness.core.structure import dtypes_of, fitted, may_stand_for, structure_fault
from kernelcup_harness.explain.differences import SHOWN, first_mismatch
from kernelcup_harness.protocol import Mismatch, dumps, loads
from kernelcup_harness.wire import records

Pair = namedtuple("Pair", "left right")
Other = namedtuple("Other", "right left")


@dataclass
class Result:
    """An output with fields."""

    values: Any
    count: Any = 0


@dataclass
class Picky:
    """A record that refuses values."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("too small")


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    "value",
    [
        ONES,
        torch.tensor(1.0),
        torch.empty(0),
        (ONES, [ONES, 3]),
        {"a": ONES, 1: None},
        Pair(ONES, "text"),
        Result(ONES),
        None,
        True,
        3,
        math.nan,
        math.inf,
        "text",
        torch.float16,
        torch.tensor([math.nan, math.inf, -math.inf]),
        torch.empty(0, 3),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.tensor([1.0]).to(torch.float8_e4m3fn),
        torch.tensor([1, 2], dtype=torch.uint16),
        (ONES, {"a": Result(ONES)}),
    ],
)
def test_a_value_has_the_structure_of_itself_and_no_mismatch(value: Any) -> None:
    assert structure_fault(value, value) == ""
    assert first_mismatch(value, value, None) is None


@pytest.mark.parametrize(
    ("expected", "actual", "fault"),
    [
        (ONES, None, "output is None; expected a tensor"),
        (ONES, 3, "output is a int; expected a tensor"),
        (ONES, torch.ones(3, 2), "output has shape [3, 2]; expected [2, 3]"),
        (ONES, torch.ones(2, 3, 1), "output has shape [2, 3, 1]; expected [2, 3]"),
        (torch.tensor(1.0), torch.ones(1), "output has shape [1]; expected []"),
        (ONES, ONES.double(), "output has dtype torch.float64; expected torch.float32"),
        (ONES, ONES.to("meta"), "output is on meta; expected on cpu"),
        ((ONES, ONES), (ONES,), "output has 1 items; expected 2"),
        ((ONES, ONES), [ONES, ONES, ONES], "output has 3 items; expected 2"),
        ([ONES], ONES, "output is a Tensor; expected a list"),
        ([ONES], [[ONES]], "output[0] is a list; expected a tensor"),
        ([1, [2]], [1, 2], "output[1] is a int; expected a list"),
        ([ONES, ONES], [ONES, ONES.int()], "output[1] has dtype torch.int32; expected torch.float32"),
        ({"a": 1}, [1], "output is a list; expected a dict"),
        ({"a": 1}, {"b": 1}, "output has keys ['b']; expected ['a']"),
        ({"a": ONES}, {"a": None}, "output['a'] is None; expected a tensor"),
        (Pair(1, 2), (1, 2, 3), "output is a tuple; expected a Pair"),
        (Pair(1, 2), {"left": 1, "up": 2}, "output has keys ['left', 'up']; expected ['left', 'right']"),
        (Result(ONES), (ONES, 0), "output is a tuple; expected a Result"),
        (Pair(1, ONES), Pair(1, 2), "output.right is a int; expected a tensor"),
        (Result(ONES), {"values": ONES}, "output has keys ['values']; expected ['count', 'values']"),
        (Result([ONES]), Result([None]), "output.values[0] is None; expected a tensor"),
        (None, ONES, "output is a Tensor; expected None"),
        (True, 1, "output is a int; expected a bool"),
        (1, True, "output is a bool; expected a int"),
        (1, "1", "output is a str; expected a int"),
        (1, 1.5, "output is a float; expected a int"),
        (1, 1 + 0j, "output is a complex; expected a int"),
        (1.0, 1j, "output is a complex; expected a float"),
        (1.0, 1 << 5000, "output is a int; expected a float"),
        (1.0, torch.ones(2), "output is a Tensor; expected a float"),
        (np.uint8(1), 256, "output is a int; expected a uint8"),
        (np.bool_(1), 1, "output is a int; expected a bool"),
        (torch.tensor(1), 1.5, "output is a float; expected a tensor"),
        (torch.tensor([1], dtype=torch.int8), 128, "output is a int; expected a tensor"),
        (torch.tensor(True), 1, "output is a int; expected a tensor"),
        (torch.ones(2), 1.0, "output is a float; expected a tensor"),
        (np.ones(2), [1.0, 1.0], "output is a list; expected an array"),
    ],
)
def test_a_fault_of_structure_is_named_with_its_place(expected: Any, actual: Any, fault: str) -> None:
    assert structure_fault(expected, actual) == fault


@pytest.mark.parametrize(
    ("expected", "actual", "given"),
    [
        # Numbers: the value counts, whatever holds it.
        (1, 1.0, 1),
        (1.5, 2, 2.0),
        (math.inf, 1, 1.0),
        (1j, 2, 2 + 0j),
        (1.5, torch.tensor([[2.5]]), 2.5),
        (1.5, torch.tensor(2), 2.0),
        (7, np.int16(5), 5),
        (True, torch.tensor(False), False),
        (True, np.bool_(0), False),
        (1.5, np.array([0.5]), 0.5),
        (np.float32(1), 0.5, np.float32(0.5)),
        (np.int8(1), torch.tensor(5), np.int8(5)),
        # One-element tensors and arrays
        (torch.ones(1, 1), 2.5, torch.tensor([[2.5]])),
        (torch.tensor(1), 3, torch.tensor(3)),
        (torch.tensor(1.0), 3, torch.tensor(3.0)),
        (torch.tensor(1.0), np.float64(0.5), torch.tensor(0.5)),
        (torch.tensor(True), False, torch.tensor(False)),
        (torch.ones(1, dtype=torch.float16), 1e300, torch.tensor([math.inf], dtype=torch.float16)),
        (np.ones(1), 2, np.array([2.0])),
        # Tensors and arrays
        (torch.ones(2), np.full(2, 3, np.float32), torch.full((2,), 3.0)),
        (np.ones(2, np.float32), torch.full((2,), 3.0), np.full(2, 3, np.float32)),
        # Containers
        ((1, [2]), [1, (2,)], (1, [2])),
        ([1, 2], Pair(1, 2), [1, 2]),
        ((1, 2), records.Fields(left=1, right=2), (1, 2)),
        (collections.OrderedDict(a=1, b=2), {"b": 4, "a": 3}, {"a": 3, "b": 4}),
        ({"left": 1, "right": 2}, Pair(3, 4), {"left": 3, "right": 4}),
        (torch.return_types.max((1, 2)), [3, 4], (3, 4)),
        # Records
        (Pair(1, 2), Other(right=4, left=3), Pair(3, 4)),
        (Pair(1, 2), records.Fields(right=4, left=3), Pair(3, 4)),
        (Pair(1, 2), (3, 4), Pair(3, 4)),
        (Result(1, 2), records.Fields(count=4, values=3), Result(3, 4)),
        (Result(1, 2), {"count": 4.0, "values": [3][0]}, Result(3, 4)),
    ],
    ids=repr,
)
def test_another_kind_arrives_as_the_references(expected: Any, actual: Any, given: Any) -> None:
    found = fitted(expected, actual, ())
    assert type(found) is type(given)
    assert repr(found) == repr(given)


def test_a_bfloat16_tensor_becomes_an_array_of_the_references_dtype() -> None:
    found = fitted(np.ones(2, np.float32), torch.ones(2, dtype=torch.bfloat16), None)
    assert found.dtype == np.float32


def test_a_record_is_made_of_an_answer_without_its_classs_code() -> None:
    found = fitted(Picky(1), {"size": -1}, ())
    assert (type(found), found.size) == (Picky, -1)


# Dtypes


ALL = sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str)
WHOLE = {  # by what holds every value of it
    "bool": "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64",
    "uint8": "uint8 int16 int32 int64 uint16 uint32 uint64",
    "int8": "int8 int16 int32 int64",
    "int16": "int16 int32 int64",
    "uint16": "uint16 int32 int64 uint32 uint64",
    "int32": "int32 int64",
    "uint32": "uint32 int64 uint64",
    "int64": "int64",
    "uint64": "uint64",
}
FLOATING = "float16 bfloat16 float32 float64"
EIGHT = "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu"
COMPLEX = "complex32 complex64 complex128"
MAY = {
    **WHOLE,
    **dict.fromkeys(FLOATING.split(), FLOATING),
    **{each: f"{each} {FLOATING}" for each in EIGHT.split()},
    **dict.fromkeys(COMPLEX.split(), COMPLEX),
}


@pytest.mark.parametrize("expected", ALL, ids=str)
def test_a_dtype_may_stand_for_another_by_a_written_table_and_nothing_is_raised(
    expected: torch.dtype,
) -> None:
    name = str(expected).removeprefix("torch.")
    may = {str(each).removeprefix("torch.") for each in ALL if may_stand_for(expected, each)}
    assert may | {name} == {name, *MAY.get(name, "").split()}


@pytest.mark.parametrize("actual", [torch.float8_e5m2, torch.int64, torch.bool, torch.complex64], ids=str)
def test_a_dtype_that_a_task_names_is_left_to_its_checker(actual: torch.dtype) -> None:
    other = ONES.to(actual)
    assert structure_fault(ONES, other, dtypes=None)
    assert structure_fault(ONES, other, dtypes=[actual]) == ""
    assert structure_fault(ONES, ONES.half(), dtypes=[actual])
    assert structure_fault(ONES, ONES, dtypes=[actual]) == ""


@pytest.mark.parametrize("name", ["float23", "int4", "float4_e2m1fn_x2", "quint8", ""])
def test_a_dtype_that_pytorch_cannot_compute_with_is_named_by_no_task(name: str) -> None:
    with pytest.raises(LookupError, match="none that PyTorch computes with"):
        dtypes_of(["float8_e5m2", name])


def test_named_dtypes_are_those_and_no_others() -> None:
    assert dtypes_of(None) is None
    assert dtypes_of([]) == frozenset()
    assert dtypes_of(["float8_e5m2", "int32"]) == {torch.float8_e5m2, torch.int32}


def test_a_record_without_one_of_its_fields_is_a_fault_of_structure() -> None:
    broken = Result(ONES)
    del broken.values
    assert structure_fault(Result(ONES), broken)


def test_what_is_told_of_a_fault_stays_short_whatever_keys_and_values_are() -> None:
    assert len(structure_fault({"a": 1}, {"x" * 1_000_000: 1})) < 10_000
    assert len(mismatch("a", "b" * 100_000).first[0].actual) <= 100


def mismatch(expected: Any, actual: Any, tolerance: tuple[float, float] | None = None) -> Mismatch:
    """Return the mismatch that must be there, and see that it survives JSON."""
    found = first_mismatch(expected, actual, tolerance)
    assert found is not None
    assert loads(Mismatch, dumps(found)) == found
    return found


def test_wrong_elements_are_counted_and_the_first_are_shown_in_row_major_order() -> None:
    actual = ONES.clone()
    actual[0, 1] = 3
    actual[1, 2] = -4
    found = mismatch(ONES, actual)
    assert (found.where, found.wrong, found.total, found.largest_error) == ("output", 2, 6, 5.0)
    assert [(each.position, each.expected, each.actual) for each in found.first] == [
        ([0, 1], "1", "3"),
        ([1, 2], "1", "-4"),
    ]
    assert found.rule == "|actual - expected| > 1e-05 + 1.3e-06 * |expected|"


def test_no_more_than_five_positions_are_shown() -> None:
    found = mismatch(torch.zeros(100), torch.ones(100))
    assert found.wrong == 100
    assert [each.position for each in found.first] == [[i] for i in range(SHOWN)]


def test_positions_are_those_of_a_transposed_output_too() -> None:
    expected = torch.arange(6.0).reshape(2, 3).t()
    actual = expected.clone()
    actual[2, 1] = 99
    assert mismatch(expected, actual).first[0].position == [2, 1]


def test_the_checkers_tolerance_decides_what_counts() -> None:
    expected, actual = torch.tensor([1.0, 100.0]), torch.tensor([1.2, 101.0])
    assert mismatch(expected, actual, (0.05, 0.0)).wrong == 1
    assert first_mismatch(expected, actual, (0.05, 0.2)) is None
    assert mismatch(expected, actual, (0.05, 0.0)).rule == "|actual - expected| > 0 + 0.05 * |expected|"


def test_nan_and_infinity_must_be_where_they_are_expected() -> None:
    expected = torch.tensor([math.nan, math.inf, -math.inf, 1.0, 1.0])
    actual = torch.tensor([1.0, -math.inf, -math.inf, math.nan, 1.5])
    found = mismatch(expected, actual)
    assert found.wrong == 4
    assert found.largest_error == 0.5
    assert [each.expected for each in found.first] == ["nan", "inf", "1", "1"]
    assert mismatch(torch.zeros(2), torch.full((2,), math.nan)).largest_error is None


@pytest.mark.parametrize(
    ("dtype", "left", "right", "error"),
    [
        (torch.bool, False, True, 1.0),
        (torch.int8, -128, 127, 255.0),
        (torch.uint8, 0, 255, 255.0),
        (torch.int64, 1, 2, 1.0),
        (torch.uint16, 0, 65535, 65535.0),
        (torch.uint64, 0, 5, 5.0),
        (torch.uint64, 5, 0, 5.0),
        (torch.float16, 1.0, 2.0, 1.0),
        (torch.bfloat16, 1.0, 2.0, 1.0),
        (torch.float8_e4m3fn, 1.0, 2.0, 1.0),
        (torch.float8_e5m2, 1.0, 2.0, 1.0),
        (torch.float8_e8m0fnu, 1.0, 2.0, 1.0),
        (torch.complex64, 0, 3 + 4j, 5.0),
    ],
)
def test_every_dtype_can_be_compared(dtype: torch.dtype, left: Any, right: Any, error: float) -> None:
    wide = torch.complex64 if dtype.is_complex else None
    found = mismatch(
        torch.tensor([left], dtype=wide).to(dtype).expand(3),
        torch.tensor([right], dtype=wide).to(dtype).expand(3),
    )
    assert (found.wrong, found.largest_error) == (3, error)


def test_whole_numbers_are_compared_exactly() -> None:
    found = mismatch(torch.tensor([2**53]), torch.tensor([2**53 + 1]))
    assert (found.rule, found.first[0].actual) == ("not equal", str(2**53 + 1))


def test_the_distance_of_the_farthest_whole_numbers_is_not_negative() -> None:
    found = mismatch(torch.tensor([-(2**63)]), torch.tensor([2**63 - 1]))
    assert found.largest_error == pytest.approx(2.0**64)


def test_the_first_leaf_that_differs_is_named() -> None:
    expected = (ONES, {"a": [Result(ONES, 1)]}, Pair(1, 2))
    actual = (ONES, {"a": [Result(ONES + 1, 2)]}, Pair(1, 3))
    assert mismatch(expected, actual).where == "output[1]['a'][0].values"
    assert mismatch(Pair(1, 2), Pair(1, 3)).where == "output.right"


@pytest.mark.parametrize(
    ("expected", "actual", "error"),
    [
        (1, 2, 1.0),
        (1.5, 1, 0.5),
        ("a", "b", None),
        (None, 1, None),
        (1.0, math.nan, None),
        (True, False, None),
    ],
)
def test_values_that_are_no_tensors_are_compared_too(expected: Any, actual: Any, error: float | None) -> None:
    found = mismatch(expected, actual)
    assert (found.largest_error, found.wrong, found.total, found.first[0].position) == (error, 1, 1, [])
    assert (found.first[0].expected, found.first[0].actual) == (repr(expected), repr(actual))


def test_a_nan_that_is_expected_is_no_mismatch() -> None:
    assert mismatch((math.nan, 1), (float("nan"), 2)).where == "output[1]"


@pytest.mark.parametrize("digits", [400, 4299])
def test_a_number_beyond_all_floats_can_be_compared(digits: int) -> None:
    """A submission may return it where a small number is expected."""
    huge = int("9" * digits)
    assert structure_fault(1, huge) == ""
    assert mismatch(1, huge).where == "output"
    assert mismatch(1.5, huge).where == "output"


@pytest.mark.parametrize(
    ("shape", "places", "tiles"),
    [
        ((2, 3), [(1, 2)], [[0, 0, 0], [0, 0, 1]]),
        ((2, 2, 3), [(0, 1, 0), (1, 1, 0)], [[0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]]),
        ((), [()], [[1]]),
        ((4,), [(0,), (3,)], [[1, 0, 0, 1]]),
        ((1, 4), [(0, 1)], [[0, 1, 0, 0]]),
    ],
)
def test_wrong_elements_are_counted_where_they_are(shape, places, tiles) -> None:
    actual = torch.zeros(shape)
    for place in places:
        actual[place] = 1.0
    found = first_mismatch(torch.zeros(shape), actual, None)
    assert found is not None
    assert (found.shape, found.tiles) == (list(shape), tiles)


@pytest.mark.parametrize("shape", [(300, 300), (10_007,), (7, 5, 100), (3000, 2), (49,), (1153,)])
def test_map_of_a_large_tensor_is_small_and_counts_every_element(shape) -> None:
    found = first_mismatch(torch.zeros(shape), torch.ones(shape), None)
    assert found is not None
    assert sum(map(sum, found.tiles)) == found.wrong == math.prod(shape)
    assert len(found.tiles) <= 24
    assert max(map(len, found.tiles)) <= 48
    assert loads(Mismatch, dumps(found)) == found


def test_map_shows_the_end_of_a_long_row_at_its_end() -> None:
    actual = torch.zeros(1_000_000)
    actual[-16:] = 1.0
    found = first_mismatch(torch.zeros(1_000_000), actual, None)
    assert found is not None
    assert found.tiles[-1][-1] == 16
    assert sum(map(sum, found.tiles)) == 16
