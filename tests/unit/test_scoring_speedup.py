"""Scores as speedups over a baseline, weights of cases, and cases that fail."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import make_audit, make_case, make_report, make_stage
from kernelcup.domain import RankingBy, Score, Standing
from kernelcup.scoring import beside_s, told_apart
from kernelcup.scoring import score as score_of
from kernelcup_harness.protocol import CaseResult, Timing, Verdict

WRONG: dict[str, Any] = {"verdict": Verdict.WRONG_ANSWER, "timing": None}


def case(base_ns: float = 2000.0, time_ns: float = 1000.0, **overrides: Any) -> CaseResult:
    return make_case(time_ns, **({"baseline_ns": [base_ns] * 16} | overrides))


def scattered(middle_ns: float, share: float) -> list[float]:
    return [middle_ns * (1 + share * (number % 5 - 2)) for number in range(20)]


def speedup(*cases: CaseResult) -> Score | None:
    return score_of(make_report(stages=[make_stage(cases)]), RankingBy.SPEEDUP)


def value(*cases: CaseResult) -> float:
    found = speedup(*cases)
    assert found is not None
    assert found.speedup is not None
    return found.speedup


def test_the_score_is_the_mean_of_the_speedups_of_all_cases() -> None:
    assert value(case(3000.0), case(1000.0, index=1)) == pytest.approx(2.0)


def test_hidden_benchmarks_count() -> None:
    assert value(case(3000.0), case(1000.0, index=1, hidden=True)) == pytest.approx(2.0)


def test_weights_weigh_speedups() -> None:
    assert value(case(4000.0, weight=3.0), case(2000.0, index=1)) == pytest.approx(3.5)


def test_a_case_that_failed_counts_nothing_and_its_weight_stays() -> None:
    assert value(case(4000.0, weight=3.0), case(index=1, **WRONG)) == pytest.approx(3.0)


def test_where_every_case_failed_there_is_no_score() -> None:
    assert speedup(case(**WRONG)) is None


def test_a_case_that_failed_costs_a_time_the_whole() -> None:
    report = make_report(stages=[make_stage([case(), case(index=1, **WRONG)])])
    for rule in (RankingBy.LAST, RankingBy.MEAN, RankingBy.GEOM):
        assert score_of(report, rule) is None


@pytest.mark.parametrize("base_ns", [[], [math.nan] * 16, [0.0] * 16, [math.inf] * 16])
def test_without_a_sound_time_of_the_baseline_there_is_no_score(base_ns: list[float]) -> None:
    assert speedup(case(), case(index=1, baseline_ns=base_ns)) is None


def test_the_seconds_are_the_reciprocal_so_that_larger_is_better_everywhere() -> None:
    fast, slow = speedup(case(4000.0)), speedup(case(2000.0))
    assert fast is not None
    assert slow is not None
    assert (fast.score_s, slow.score_s) == (pytest.approx(0.25), pytest.approx(0.5))
    assert fast.score_s < slow.score_s


@given(st.lists(st.tuples(st.floats(1.0, 1e9), st.floats(1.0, 1e9)), min_size=1, max_size=20))
def test_a_slower_case_never_improves_a_speedup(pairs: list[tuple[float, float]]) -> None:
    cases = [case(base, time, index=index) for index, (base, time) in enumerate(pairs)]
    slower = [case(pairs[0][0], 2 * pairs[0][1]), *cases[1:]]
    assert value(*slower) <= value(*cases) * (1 + 1e-9)


def test_the_interval_has_the_scatter_of_both_times() -> None:
    def width(base_share: float, time_share: float) -> float:
        timing = Timing(samples_ns=scattered(1000.0, time_share))
        found = speedup(case(baseline_ns=scattered(2000.0, base_share), timing=timing))
        assert found is not None
        assert found.low_s is not None
        assert found.high_s is not None
        assert found.low_s < found.score_s < found.high_s
        return math.log(found.high_s / found.low_s)

    assert width(0.01, 0.01) == pytest.approx(math.sqrt(2) * width(1e-6, 0.01), rel=0.02)
    assert width(0.01, 1e-6) == pytest.approx(width(1e-6, 0.01), rel=0.02)


def test_on_a_gpu_the_interval_also_covers_two_processes() -> None:
    def reach(**timing: Any) -> float:
        samples = [1e6 + 10.0 * (number % 3) for number in range(20)]
        both = case(
            baseline_ns=[2e6 + number % 3 for number in range(20)],
            timing=Timing(samples_ns=samples, **timing),
        )
        found = speedup(both)
        assert found is not None
        assert found.high_s is not None
        return math.log(found.high_s / found.score_s)

    replayed = reach(offset_ns=1.0, audit=make_audit(1e6))
    assert replayed == pytest.approx(1.96 * math.sqrt(2) * 0.004, rel=0.05)
    assert reach() < replayed / 10


def test_equal_results_are_tied_and_different_ones_told_apart() -> None:
    def one(time_ns: float) -> Score:
        timing = Timing(samples_ns=scattered(time_ns, 0.005))
        found = speedup(case(baseline_ns=scattered(2000.0, 0.005), timing=timing))
        assert found is not None
        return found

    assert not told_apart(one(1000.0), one(1001.0))
    assert told_apart(one(1000.0), one(1100.0))


@pytest.mark.parametrize(
    ("rule", "expected_s"), [(RankingBy.MEAN, 2.5e-6), (RankingBy.GEOM, 1e-6 * 4 ** (2 / 3))]
)
def test_times_have_weights_too(rule: RankingBy, expected_s: float) -> None:
    weights = (1.0, 1.0) if rule is RankingBy.MEAN else (1.0, 2.0)
    cases = [make_case(time, index=at, weight=weights[at]) for at, time in enumerate((1000.0, 4000.0))]
    found = score_of(make_report(stages=[make_stage(cases)]), rule)
    assert found is not None
    assert found.score_s == pytest.approx(expected_s)
    assert found.speedup is None


def test_no_time_of_the_reference_stands_beside_a_speedup() -> None:
    report = make_report(stages=[make_stage([case(reference_ns=2000.0)])])
    assert beside_s(report, RankingBy.SPEEDUP, lambda each: each.reference_ns) is None


def test_a_csv_has_no_seconds_of_a_speedup() -> None:
    from builders import make_entry
    from kernelcup.scoring import ranked

    (place,) = ranked([make_entry(score=Score(score_s=0.5, low_s=0.4, high_s=0.6, speedup=2.0))], [1])
    assert isinstance(place, Standing)
    assert place.times_s == (None, None, None)
