"""What a handful of times says, and how often its interval is right."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelcup_harness.protocol import estimates
from kernelcup_harness.protocol.results import trimmed_mean

TIMES = st.lists(st.floats(1.0, 1e9), min_size=2, max_size=60)


def test_one_slow_call_moves_nothing() -> None:
    quiet = [100.0 + each % 3 for each in range(30)]
    assert trimmed_mean([*quiet, 1e9]) == pytest.approx(trimmed_mean(quiet), rel=0.01)


def test_the_mean_of_few_is_their_mean() -> None:
    assert trimmed_mean([1.0, 2.0, 6.0]) == 3.0
    assert math.isnan(trimmed_mean([]))


@given(TIMES)
def test_the_interval_is_around_the_estimate(samples: list[float]) -> None:
    found = estimates.interval(samples)
    assert found is not None
    middle = trimmed_mean(samples)
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
    truth = trimmed_mean([heavy_tailed(chance) for _ in range(100_000)])
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


def test_a_moved_interval_never_goes_below_nothing_and_one_sample_has_none() -> None:
    assert estimates.moved((5.0, 15.0), 10.0, 2.0) == (0.0, 7.0)
    assert estimates.moved(None, 1.0, 2.0) is None
    assert estimates.interval([5.0]) is None
    assert estimates.half_width([5.0]) == math.inf
