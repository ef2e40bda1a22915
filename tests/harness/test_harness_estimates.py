"""What a handful of times says, and how often its interval is right."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelcup_harness import estimates

TIMES = st.lists(st.floats(1.0, 1e9), min_size=2, max_size=60)


def test_one_slow_call_moves_nothing() -> None:
    quiet = [100.0 + each % 3 for each in range(30)]
    assert estimates.robust([*quiet, 1e9]) == pytest.approx(estimates.robust(quiet), rel=0.01)


def test_the_mean_of_few_is_their_mean() -> None:
    assert estimates.robust([1.0, 2.0, 6.0]) == 3.0
    assert math.isnan(estimates.robust([]))


def test_one_sample_has_no_interval() -> None:
    assert estimates.interval([5.0]) is None
    assert estimates.half_width([5.0]) == math.inf


@given(TIMES)
def test_the_interval_is_around_the_estimate(samples: list[float]) -> None:
    found = estimates.interval(samples)
    assert found is not None
    middle = estimates.robust(samples)
    assert found[0] <= middle * (1 + 1e-9)
    assert found[1] >= middle * (1 - 1e-9)


@given(TIMES, st.floats(0.5, 1e3))
def test_the_interval_scales_with_the_samples(samples: list[float], factor: float) -> None:
    scaled = estimates.half_width([factor * each for each in samples])
    assert scaled == pytest.approx(factor * estimates.half_width(samples), rel=1e-6, abs=1e-3)


def heavy_tailed(chance: random.Random) -> float:
    """Draw a time as calls take it: some jitter, and now and then something in the way."""
    return chance.gauss(100, 1) + (chance.expovariate(0.1) if chance.random() < 0.05 else 0)


@pytest.mark.parametrize("count", [5, 20, 100])
def test_nineteen_of_twenty_intervals_hold_what_endlessly_many_samples_give(count: int) -> None:
    chance = random.Random(count)
    truth = estimates.robust([heavy_tailed(chance) for _ in range(100_000)])
    held = 0
    for _ in range(400):
        found = estimates.interval([heavy_tailed(chance) for _ in range(count)])
        assert found is not None
        held += found[0] <= truth <= found[1]
    assert held >= 0.9 * 400


def test_intervals_of_samples_that_drift_hold_too() -> None:
    """Neighbours are alike: without taking that into account two of five intervals would miss."""
    chance = random.Random(7)
    held = 0
    for _ in range(300):
        state, samples = 0.0, []
        for _ in range(100):
            state = 0.7 * state + chance.gauss(0, 1)
            samples.append(100 + state)
        found = estimates.interval(samples)
        assert found is not None
        held += found[0] <= 100 <= found[1]
    assert held >= 0.85 * 300


def test_independent_samples_are_not_taken_for_alike() -> None:
    chance = random.Random(3)
    found = [estimates.likeness([chance.gauss(0, 1) for _ in range(100)]) for _ in range(100)]
    assert statistics.median(found) < 1.3


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (100, 1.984)]
)
def test_quantiles_are_students(freedom: int, expected: float) -> None:
    assert estimates.student(0.95, freedom) == pytest.approx(expected, rel=0.005)


def test_quantiles_lie_between_neighbours() -> None:
    assert estimates.quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert estimates.quantile([1.0], 0.99) == 1.0
    assert math.isnan(estimates.quantile([], 0.5))


def test_a_moved_interval_never_goes_below_nothing() -> None:
    assert estimates.moved((5.0, 15.0), 10.0, 2.0) == (0.0, 7.0)
    assert estimates.moved(None, 1.0, 2.0) is None


def test_a_slope_is_what_a_call_adds() -> None:
    assert estimates.slopes([[1_000.0, 2_000.0], [4_000.0, 5_600.0]], [10, 40]) == [100.0, 120.0]


def test_a_device_that_slows_itself_down_is_not_held_against_a_claim() -> None:
    # Of a product of matrices: after a while of full load it takes a tenth longer.
    few, many = [400.0, 395.0, 450.0, 440.0, 445.0], [1_600.0, 1_605.0, 1_840.0, 1_860.0, 1_850.0]
    assert max(estimates.slopes([few, many], [10, 40])) > 46
    assert max(estimates.slopes([few, many], [10, 40], quick=True)[:2]) < 41
    assert len(estimates.slopes([few, many], [10, 40], quick=True)) == 3


def test_of_two_slopes_both_count() -> None:
    assert estimates.slopes([[1.0, 2.0], [5.0, 4.0]], [1, 2], quick=True) == [2.0, 4.0]


def test_short_series_that_are_slow_do_not_choose() -> None:
    # Who made them wait would look quick; only the long ones are looked at.
    few, many = [900.0, 400.0, 900.0, 400.0], [1_700.0, 1_600.0, 1_750.0, 1_650.0]
    assert estimates.slopes([few, many], [10, 40], quick=True) == [40.0, pytest.approx(1250 / 30)]
