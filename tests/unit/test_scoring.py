from __future__ import annotations

import dataclasses
import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, make_case, make_entry, make_report, make_stage
from kernelcup.domain import RankingBy
from kernelcup.scoring import score as score_of
from kernelcup_harness.protocol import RunReport, StageName, Timing, Verdict
from ranking_model import standings

times = st.lists(st.floats(min_value=1.0, max_value=1e12), min_size=1, max_size=60)
any_rule = st.sampled_from([RankingBy.LAST, RankingBy.MEAN, RankingBy.GEOM])
order_free_rule = st.sampled_from([RankingBy.MEAN, RankingBy.GEOM])
unusable = pytest.mark.parametrize("time_ns", [math.nan, math.inf, -math.inf, -1.0, 0.0, None])


def score_s(report: RunReport, rule: RankingBy) -> float | None:
    found = score_of(report, rule)
    return None if found is None else found.score_s


def score(*times_ns: float, by: RankingBy = RankingBy.LAST) -> float | None:
    return score_s(make_report(times_ns), by)


def test_last_takes_the_last_benchmark() -> None:
    assert score(1000.0, 3000.0, 2000.0) == pytest.approx(2e-6)


def test_last_goes_by_the_index_and_not_by_the_order_of_arrival() -> None:
    cases = [make_case(7000.0, index=1), make_case(1000.0, index=0)]
    assert score_s(make_report(stages=[make_stage(cases)]), RankingBy.LAST) == pytest.approx(7e-6)


def test_last_means_the_last_public_benchmark() -> None:
    cases = [make_case(1000.0, index=0), make_case(9000.0, index=1, hidden=True)]
    assert score_s(make_report(stages=[make_stage(cases)]), RankingBy.LAST) == pytest.approx(1e-6)


def test_last_gives_nothing_when_all_benchmarks_are_hidden() -> None:
    cases = [make_case(1000.0, hidden=True)]
    assert score_s(make_report(stages=[make_stage(cases)]), RankingBy.LAST) is None


def test_mean_counts_hidden_benchmarks() -> None:
    cases = [make_case(1000.0, index=0), make_case(9000.0, index=1, hidden=True)]
    assert score_s(make_report(stages=[make_stage(cases)]), RankingBy.MEAN) == pytest.approx(5e-6)


def test_geom_is_the_geometric_mean() -> None:
    assert score(1000.0, 4000.0, by=RankingBy.GEOM) == pytest.approx(2e-6)


def test_geom_of_many_microseconds_does_not_underflow() -> None:
    assert score(*[1000.0] * 60, by=RankingBy.GEOM) == pytest.approx(1e-6)


def test_mean_of_very_long_times_does_not_overflow() -> None:
    assert score(*[1e307] * 30, by=RankingBy.MEAN) == pytest.approx(1e298)


@pytest.mark.parametrize("rule", list(RankingBy))
@unusable
def test_an_unusable_time_costs_the_score(time_ns: float | None, rule: RankingBy) -> None:
    cases = [make_case(time_ns, index=0), make_case(1000.0, index=1)]
    assert score_s(make_report(stages=[make_stage(cases)]), rule) is None


@unusable
def test_an_unusable_figure_of_an_own_harness_costs_the_score(time_ns: float | None) -> None:
    case = make_case(timing=Timing(samples_ns=[], reported_ns=time_ns))
    assert score_s(make_report(stages=[make_stage([case])]), RankingBy.LAST) is None


def test_a_reported_time_is_the_score_of_an_own_harness() -> None:
    case = make_case(timing=Timing(samples_ns=[], reported_ns=1500.0))
    assert score_s(make_report(stages=[make_stage([case])]), RankingBy.LAST) == pytest.approx(1.5e-6)


def test_one_bad_sample_costs_the_score_even_if_it_would_be_trimmed() -> None:
    case = make_case(timing=Timing(samples_ns=[-1.0] + [1000.0] * 20))
    assert score_s(make_report(stages=[make_stage([case])]), RankingBy.LAST) is None


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.ACCEPTED])
def test_only_accepted_runs_score(verdict: Verdict) -> None:
    assert score_s(make_report(verdict=verdict), RankingBy.LAST) is None
    stage = make_stage([make_case()], verdict=verdict)
    assert score_s(make_report(stages=[stage]), RankingBy.LAST) is None
    case = make_case(verdict=verdict)
    assert score_s(make_report(stages=[make_stage([case])]), RankingBy.LAST) is None


def test_a_benchmark_stage_gives_no_score() -> None:
    stage = make_stage([make_case()], name=StageName.BENCHMARK)
    assert score_s(make_report(stages=[stage]), RankingBy.LAST) is None


def test_a_missing_case_costs_the_score() -> None:
    assert score_s(make_report(stages=[make_stage([make_case()], planned_cases=2)]), RankingBy.LAST) is None
    assert score_s(make_report(stages=[make_stage([])]), RankingBy.MEAN) is None


@given(times, order_free_rule, st.randoms())
def test_the_order_of_benchmarks_does_not_matter(times_ns: list[float], rule: RankingBy, random) -> None:
    shuffled = random.sample(times_ns, len(times_ns))
    assert score(*times_ns, by=rule) == pytest.approx(score(*shuffled, by=rule), rel=1e-12)


@given(times, any_rule, st.data())
def test_a_slower_benchmark_never_improves_the_score(times_ns: list[float], rule: RankingBy, data) -> None:
    slower = list(times_ns)
    slower[data.draw(st.integers(0, len(times_ns) - 1))] *= data.draw(st.floats(1.0, 100.0))
    before, after = score(*times_ns, by=rule), score(*slower, by=rule)
    assert before is not None
    assert after is not None
    assert after >= before * (1 - 1e-12)


@given(times, any_rule)
def test_a_score_lies_between_the_fastest_and_the_slowest(times_ns: list[float], rule: RankingBy) -> None:
    found = score(*times_ns, by=rule)
    assert found is not None
    assert min(times_ns) * 1e-9 * (1 - 1e-9) <= found <= max(times_ns) * 1e-9 * (1 + 1e-9)


def test_equal_scores_share_a_rank_and_the_next_is_skipped() -> None:
    scores = {"ada": 1.0, "bob": 2.0, "cyn": 2.0, "dan": 3.0}
    entries = [
        make_entry(user=user, score_s=value, submission_id=number)
        for number, (user, value) in enumerate(scores.items())
    ]
    assert [place.rank for place in standings(entries)] == [1, 2, 2, 4]


def test_of_equal_scores_the_earlier_submission_comes_first() -> None:
    late, early = make_entry(user="ada", submission_id=2), make_entry(user="bob", submission_id=1)
    assert [place.user for place in standings([late, early])] == ["bob", "ada"]


def test_a_user_stands_with_the_best_run() -> None:
    entries = [
        make_entry(score_s=value, submission_id=number) for number, value in enumerate([3.0, 1.0, 2.0])
    ]
    (place,) = standings(entries)
    assert (place.score_s, place.submission_id) == (1.0, 1)


def test_of_two_equal_runs_of_a_user_the_earlier_counts() -> None:
    entry = make_entry(submission_id=8)
    later = dataclasses.replace(entry, submission_id=9, submitted_at=NOW + timedelta(hours=1))
    assert standings([later, entry])[0].submission_id == 8


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_an_unusable_score_has_no_standing(value: float) -> None:
    assert standings([make_entry(score_s=value)]) == []


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(1e-9, 10.0)), max_size=30), st.randoms())
def test_standings_do_not_depend_on_the_order_of_entries(pairs: list[tuple[str, float]], random) -> None:
    entries = [make_entry(user=user, score_s=value, submission_id=n) for n, (user, value) in enumerate(pairs)]
    ranked = standings(entries)
    assert standings(random.sample(entries, len(entries))) == ranked
    assert [place.score_s for place in ranked] == sorted(place.score_s for place in ranked)
    assert {place.user for place in ranked} == {user for user, _ in pairs}
