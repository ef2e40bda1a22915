"""The utilities that tasks share say what is wrong, and never call something wrong right."""

from __future__ import annotations

import importlib.util
import math
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

SOURCE = Path(__file__).parents[2] / "src/kernelcup/tasks/shared/utils.py"


def load_utils() -> ModuleType:
    spec = importlib.util.spec_from_file_location("task_utils", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


utils = load_utils()
NAN, INF = math.nan, math.inf


def test_equal_tensors_leave_nothing_to_say() -> None:
    values = torch.tensor([0.0, 1.5, NAN, INF, -INF])
    assert utils.verbose_allclose(values, values.clone()) == []
    assert utils.verbose_allequal(values, values.clone()) == []


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (NAN, 1.0),
        (1.0, NAN),
        (INF, 1.0),
        (1.0, INF),
        (-INF, INF),
        (NAN, INF),
        (INF, NAN),
        (1.0 + 2e-5, 1.0),
        (0.0, 1e-6),
    ],
)
def test_a_value_outside_the_tolerance_is_wrong(received: float, expected: float) -> None:
    assert utils.verbose_allclose(torch.tensor([received]), torch.tensor([expected])) != []


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.bool],
)
def test_every_type_of_element_is_compared(dtype: Any) -> None:
    ones = torch.ones(3, 3).to(dtype)
    other = ones.clone()
    other[1, 2] = 0
    assert utils.verbose_allclose(ones, ones.clone()) == []
    summary, detail = utils.verbose_allclose(other, ones)
    assert summary.startswith("1 of 9 elements are wrong")
    assert detail.startswith("[1, 2]: expected ")


def test_half_precision_is_compared_without_overflow() -> None:
    high, low = torch.tensor([60000.0]).half(), torch.tensor([-60000.0]).half()
    assert "the largest finite error is 120000" in utils.verbose_allclose(high, low)[0]


def test_large_integers_are_told_apart() -> None:
    values = torch.tensor([2**60, 2**60 + 1])
    assert utils.verbose_allequal(values, values.clone()) == []
    assert utils.verbose_allequal(values, values.flip(0))[0].startswith("2 of 2 elements are wrong")


def test_complex_numbers_are_compared_by_distance() -> None:
    values = torch.tensor([3 + 4j])
    assert utils.verbose_allclose(values * (1 + 1e-6), values) == []
    assert utils.verbose_allclose(values * (1 + 1e-3), values) != []


def test_the_summary_counts_and_the_details_stop_at_the_limit() -> None:
    expected = torch.zeros(4, 5)
    received = expected.clone()
    received[1:] = 2.0
    received[3, 4] = NAN
    received[3, 3] = INF
    lines = utils.verbose_allclose(received, expected, max_print=2)
    assert lines == [
        (
            "15 of 20 elements are wrong (75.00%); 1 of them NaN; 1 of them infinite; "
            "the largest finite error is 2 at [1, 0]"
        ),
        "[1, 0]: expected 0.0, got 2.0",
        "[1, 1]: expected 0.0, got 2.0",
        "and 13 more",
    ]


def test_places_are_right_beyond_the_first_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "CHUNK", 4)
    expected = torch.zeros(3, 3)
    received = expected.clone()
    received[0, 1], received[2, 2] = 1.0, 5.0
    assert utils.verbose_allclose(received, expected) == [
        "2 of 9 elements are wrong (22.22%); the largest finite error is 5 at [2, 2]",
        "[0, 1]: expected 0.0, got 1.0",
        "[2, 2]: expected 0.0, got 5.0",
    ]


def test_another_form_is_reported_before_any_value() -> None:
    lines = utils.verbose_allclose(torch.zeros(2, dtype=torch.float64), torch.zeros(3))
    assert lines == [
        "expected the shape (3,), got (2,)",
        "expected the dtype torch.float32, got torch.float64",
    ]
    sparse = torch.eye(2).to_sparse()
    assert utils.verbose_allclose(sparse, torch.eye(2)) == [
        "expected a dense tensor, got the layout torch.sparse_coo"
    ]


def test_empty_and_zero_dimensional_tensors_are_tensors_too() -> None:
    assert utils.verbose_allclose(torch.zeros(0, 3), torch.zeros(0, 3)) == []
    assert utils.verbose_allclose(torch.tensor(1.0), torch.tensor(1.0)) == []
    assert utils.verbose_allclose(torch.tensor(2.0), torch.tensor(1.0))[1] == "[]: expected 1.0, got 2.0"


def test_strides_and_gradients_do_not_matter() -> None:
    values = torch.arange(6.0).reshape(2, 3)
    transposed = values.t().contiguous().t().requires_grad_()
    assert utils.verbose_allclose(transposed, values) == []


def test_the_made_check_carries_its_tolerances() -> None:
    check = utils.make_match_reference(lambda data: data * 2, rtol=1e-3, atol=1e-2)
    assert (check.rtol, check.atol) == (1e-3, 1e-2)
    assert check(torch.ones(2), torch.full((2,), 2.001)) == (True, "")
    good, message = check(torch.ones(2), torch.ones(2))
    assert not good
    assert message.startswith("output: 2 of 2 elements are wrong")


NEST = {"pair": (torch.ones(2), [1.5, 3]), "flag": True, "word": "yes", "nothing": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ""),
        ({"pair": [torch.ones(2), (1.5, 3)]}, ""),
        ({"pair": (torch.ones(2), [NAN, 3])}, "output['pair'][1][0]: expected 1.5, got nan"),
        ({"pair": (torch.ones(2),)}, "output['pair']: expected 2 values, got 1"),
        ({"pair": []}, "output['pair']: expected 2 values, got 0"),
        ({"pair": torch.ones(2)}, "output['pair']: expected 2 values, got Tensor"),
        ({"pair": (None, [1.5, 3])}, "output['pair'][0]: expected a tensor, got None"),
        ({"pair": (torch.ones(2), [1.5, True])}, "output['pair'][1][1]: expected int, got bool"),
        ({"flag": 1}, "output['flag']: expected bool, got int"),
        ({"word": "no"}, "output['word']: expected 'yes', got 'no'"),
        ({"more": 1}, "output: expected the keys ['flag', 'nothing', 'pair', 'word'], got "),
    ],
)
def test_nests_are_walked_and_the_place_is_named(change: dict[str, object], message: str) -> None:
    good, said = utils.match_reference(None, {**NEST, **change}, lambda _: NEST)
    assert good is (message == "")
    assert said.startswith(message)


def test_a_tensor_of_another_class_is_refused() -> None:
    class Lazy(torch.Tensor):  # type: ignore[misc]
        pass

    lazy = torch.ones(2).as_subclass(Lazy)
    assert utils.match_reference(None, lazy, lambda _: torch.ones(2)) == (
        False,
        "output: expected a tensor, got Lazy",
    )


def test_a_seed_repeats_all_generators() -> None:
    utils.set_seed(7)
    first = (random.random(), torch.rand(1).item())
    utils.set_seed(7)
    assert (random.random(), torch.rand(1).item()) == first


def test_the_deterministic_context_restores_what_it_found() -> None:
    def settings() -> tuple[object, ...]:
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        precisions = (matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision)
        return (cudnn.deterministic, cudnn.benchmark, *precisions)

    def fail_inside() -> None:
        with utils.DeterministicContext():
            assert settings() == (True, False, "ieee", "ieee", "ieee")
            raise RuntimeError("inside")

    before = settings()
    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert settings() == before
