"""Intervals of scores, and ranks that are shared by who cannot be told apart."""

from __future__ import annotations

import dataclasses
import math
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, make_audit, make_case, make_entry, make_report, make_stage, make_wall_report
from kernelcup.domain import RankingBy, Score
from kernelcup.scoring import (
    LARGEST_REACH,
    Placed,
    band_heads,
    case_interval_ns,
    own_rank_s,
    placed,
    ranked,
    score,
    told_apart,
)
from kernelcup_harness.protocol import Timing, estimates
from ranking_model import standings

spans = st.builds(
    lambda score_s, down, up: Placed(
        score_s=score_s,
        low_s=score_s * math.exp(-down),
        high_s=score_s * math.exp(up),
    ),
    st.floats(1e-6, 1.2e-6),
    st.floats(0, 0.03),
    st.floats(0, 0.03),
)
any_rule = st.sampled_from([RankingBy.LAST, RankingBy.MEAN, RankingBy.GEOM])
samples = st.lists(st.floats(900.0, 1100.0), min_size=5, max_size=30)


def ordered(found: list[Placed]) -> list[Placed]:
    return sorted(found, key=lambda span: span.score_s)


def span(score_s: float, reach: float = 0.0, **more: bool) -> Placed:
    return Placed(score_s=score_s, low_s=score_s * math.exp(-reach), high_s=score_s * math.exp(reach), **more)


def scored(*timings: Timing, by: RankingBy = RankingBy.GEOM):
    cases = [make_case(timing=timing, index=index) for index, timing in enumerate(timings)]
    found = score(make_report(stages=[make_stage(cases)]), by)
    assert found is not None
    return found


@given(st.lists(samples, min_size=1, max_size=5), any_rule)
def test_a_score_lies_in_its_interval(found: list[list[float]], rule: RankingBy) -> None:
    got = scored(*(Timing(samples_ns=each) for each in found), by=rule)
    assert got.low_s is not None
    assert got.high_s is not None
    assert 0 < got.low_s <= got.score_s * (1 + 1e-12)
    assert got.score_s <= got.high_s * (1 + 1e-12)


@given(samples, st.integers(2, 9))
def test_the_geometric_mean_of_like_cases_is_known_better_than_each(found: list[float], count: int) -> None:
    one = scored(Timing(samples_ns=found))
    many = scored(*[Timing(samples_ns=found)] * count)
    assert one.high_s is not None
    assert many.high_s is not None
    reach, shared = math.log(one.high_s / one.score_s), math.log(many.high_s / many.score_s)
    assert shared == pytest.approx(reach / math.sqrt(count), abs=1e-9)


def test_in_a_mean_the_longest_case_decides_how_well_it_is_known() -> None:
    noisy = [900_000.0, 1_100_000.0] * 5
    quiet = [10.0, 10.001] * 5
    got = scored(Timing(samples_ns=noisy), Timing(samples_ns=quiet), by=RankingBy.MEAN)
    alone = scored(Timing(samples_ns=noisy))
    assert got.high_s is not None
    assert alone.high_s is not None
    assert got.high_s / got.score_s == pytest.approx(alone.high_s / alone.score_s, rel=1e-4)


def test_last_has_the_interval_of_the_last_public_case() -> None:
    wide, narrow = [900.0, 1100.0] * 5, [1000.0, 1000.1] * 5
    got = scored(Timing(samples_ns=wide), Timing(samples_ns=narrow), by=RankingBy.LAST)
    assert got == scored(Timing(samples_ns=narrow), by=RankingBy.LAST)


def test_a_case_of_which_nothing_is_known_leaves_the_score_without_an_interval() -> None:
    got = scored(Timing(samples_ns=[1000.0] * 10), Timing(samples_ns=[], reported_ns=1000.0))
    assert (got.low_s, got.high_s) == (None, None)
    assert got.score_s == pytest.approx(1e-6)


def test_an_interval_that_would_reach_below_zero_is_mirrored() -> None:
    timing = Timing(samples_ns=[10.0, 2000.0])
    found = case_interval_ns(timing)
    assert found is not None
    low, high = found
    assert 0 < low < timing.score_ns < high
    assert timing.score_ns / low == pytest.approx(high / timing.score_ns)


def test_raw_is_what_the_clock_read_before_the_offset_was_taken_off() -> None:
    got = scored(Timing(samples_ns=[1000.0] * 10, offset_ns=200.0))
    assert (got.score_s, got.raw_s) == (pytest.approx(0.8e-6), pytest.approx(1e-6))


def test_what_a_gpu_measured_is_known_no_better_than_kernels_differ_between_processes() -> None:
    def reach(time_ns: float, offset_ns: float) -> float:
        got = scored(Timing(samples_ns=[time_ns + offset_ns] * 10, offset_ns=offset_ns))
        assert got.low_s is not None
        assert got.high_s is not None
        assert got.high_s / got.score_s == pytest.approx(got.score_s / got.low_s)
        return got.high_s / got.score_s - 1

    assert reach(20e3, 2e3) == pytest.approx(1.96 * math.hypot(80 / 20e3, 0.004), rel=0.01)
    assert reach(2e3, 2e3) == pytest.approx(1.96 * 80 / 2e3, rel=0.06)
    assert reach(1e6, 2e3) == pytest.approx(1.96 * 0.004, rel=0.01)
    # The processor's clock has no offset, and nobody knows how it differs.
    assert reach(20e3, 0.0) == 0.0


def test_wall_clock_intervals_include_the_variation_between_processes() -> None:
    found = score(make_wall_report(6e5), RankingBy.GEOM)
    assert found is not None
    assert found.high_s is not None
    assert math.log(found.high_s / found.score_s) == pytest.approx(1.96 * 150 / 600, rel=1e-3)
    # A device without a GPU has no such finding.
    without = make_wall_report(6e5)
    timing = without.stages[0].cases[0].timing
    assert timing is not None
    assert estimates.process_error_ns(dataclasses.replace(timing, audit=make_audit(6e5))) == 0.0


def test_cases_of_one_process_do_not_average_out_what_differs_between_processes() -> None:
    timing = Timing(samples_ns=[22e3] * 10, offset_ns=2e3)
    assert scored(timing, timing, timing).high_s == pytest.approx(scored(timing).high_s)


@given(spans, spans)
def test_told_apart_does_not_depend_on_who_is_named_first(first: Placed, second: Placed) -> None:
    assert told_apart(first, second) == told_apart(second, first)


@given(spans, st.floats(1e-3, 1e3))
def test_only_the_ratio_counts(first: Placed, factor: float) -> None:
    second = span(first.score_s * 1.02, 0.01)
    scaled = [placed(each, each.score_s * factor) for each in (first, second)]
    assert told_apart(first, second) == told_apart(*scaled)


def test_half_a_percent_each_tells_one_percent_apart_and_not_half_a_percent() -> None:
    assert told_apart(span(1.0, 0.005), span(1.01, 0.005))
    assert not told_apart(span(1.0, 0.005), span(1.005, 0.005))


def test_without_intervals_only_equal_scores_are_tied() -> None:
    assert not told_apart(Score(score_s=1.0), Score(score_s=1.0))
    assert told_apart(Score(score_s=1.0), Score(score_s=1.0001))


def test_a_wide_interval_counts_as_five_percent_against_a_precise_result() -> None:
    wide = span(1.0, 3.0)
    assert not told_apart(wide, span(1.04))
    assert told_apart(wide, span(math.exp(LARGEST_REACH) * 1.001))


def test_wide_intervals_count_against_each_other_as_far_as_the_narrower_one() -> None:
    assert not told_apart(span(1.0, 0.2), span(math.exp(0.28), 0.2))
    assert told_apart(span(1.0, 0.2), span(math.exp(0.29), 0.2))
    assert told_apart(span(1.0, 0.2), span(math.exp(0.29), 2.0))
    assert not told_apart(span(1.0, 0.2), span(math.exp(0.28), 2.0))


def ranks_of(*scores: Score) -> dict[int, int]:
    """Return the rank of each score, by its number."""
    entries = [
        make_entry(user=str(number), submission_id=number, score=each) for number, each in enumerate(scores)
    ]
    return {each.submission_id: each.rank for each in standings(entries)}


def interval_of(score_s: float, down: float, up: float) -> Score:
    return Score(score_s=score_s, low_s=score_s * math.exp(-down), high_s=score_s * math.exp(up))


precise = st.builds(interval_of, st.floats(1.0, 1.5), st.floats(0, 0.048), st.floats(0, 0.048))
noise = st.floats(0.05, 3.0)


@given(st.lists(precise, max_size=12), precise, noise, noise)
def test_noise_beyond_five_percent_never_improves_a_rank(
    others: list[Score], measured: Score, down: float, up: float
) -> None:
    noisy = interval_of(measured.score_s, down, up)
    assert own_rank_s(noisy) > noisy.score_s
    mine = len(others)
    assert ranks_of(*others, noisy)[mine] >= ranks_of(*others, measured)[mine]


@given(st.lists(precise, min_size=1, max_size=12), st.floats(1.0, 1.5), noise, noise, st.floats(1.0, 2.0))
def test_the_wider_an_interval_is_beyond_five_percent_the_worse_its_rank(
    others: list[Score], score_s: float, down: float, up: float, factor: float
) -> None:
    mine = len(others)
    ranks = [ranks_of(*others, interval_of(score_s, down, up * wider))[mine] for wider in (1.0, factor)]
    assert ranks[0] <= ranks[1]


@given(precise, st.floats(1.0, 1.5), noise, noise)
def test_a_noisy_result_shares_no_rank_with_a_precise_one_unless_its_upper_end_would(
    other: Score, score_s: float, down: float, up: float
) -> None:
    noisy = interval_of(score_s, down, up)
    assert noisy.high_s is not None
    ranks = ranks_of(other, noisy)
    if ranks[0] == ranks[1]:
        assert abs(math.log(noisy.high_s / other.score_s)) <= math.hypot(LARGEST_REACH, 0.048) + 1e-6


@given(st.lists(precise, min_size=1, max_size=8), st.floats(1.0, 1.5), st.floats(0.0, 0.5), st.integers(2, 6))
def test_equal_measurements_share_a_rank_however_wide_they_are(
    others: list[Score], score_s: float, reach: float, count: int
) -> None:
    ranks = ranks_of(*[interval_of(score_s, reach, reach)] * count, *others)
    assert len({ranks[number] for number in range(count)}) == 1


wall_times = st.lists(st.floats(-1.0, 1.0), min_size=5, max_size=5)


@given(wall_times, st.floats(5e5, 1e7))
def test_copies_by_the_wall_clock_of_a_gpu_share_the_first_place(found: list[float], time_ns: float) -> None:
    """Within one standard deviation between processes, from calls of 0.5 to 10 ms."""
    reports = [make_wall_report(time_ns + estimates.WALL_CLOCK_NS * each) for each in found]
    scores = [score(each, RankingBy.LAST) for each in reports]
    assert set(ranks_of(*filter(None, scores)).values()) == {1}


@given(st.lists(spans, max_size=40))
def test_ranks_follow_the_estimates(found: list[Placed]) -> None:
    ranks = list(band_heads(ordered(found)))
    assert ranks == sorted(ranks)
    assert all(rank <= place for place, rank in enumerate(ranks, start=1))
    assert all(rank == 1 for rank in ranks[:1])


@given(st.lists(spans, max_size=40))
def test_who_shares_a_rank_cannot_be_told_apart_from_its_head(found: list[Placed]) -> None:
    line = ordered(found)
    for each, rank in zip(line, band_heads(line), strict=True):
        assert not told_apart(line[rank - 1], each)


@given(st.lists(spans, max_size=40))
def test_the_head_of_a_band_is_told_apart_from_the_one_before(found: list[Placed]) -> None:
    line = ordered(found)
    heads = sorted(set(band_heads(line)))
    for first, second in pairwise(heads):
        assert told_apart(line[first - 1], line[second - 1])


@given(st.lists(spans, min_size=1, max_size=40), st.data())
def test_what_comes_below_changes_no_rank_above(found: list[Placed], data: st.DataObject) -> None:
    line = ordered(found)
    count = data.draw(st.integers(1, len(line)))
    assert list(band_heads(line[:count])) == list(band_heads(line))[:count]


def test_a_chain_of_small_steps_does_not_tie_its_ends() -> None:
    line = [span(1.005**step, 0.005) for step in range(10)]
    assert list(band_heads(line)) == [1, 1, 3, 3, 5, 5, 7, 7, 9, 9]


def test_who_is_measured_badly_does_not_overtake_who_is_measured_well() -> None:
    line = [span(1.0, 0.001), span(1.02, 0.001), span(1.03, 0.05)]
    assert list(band_heads(line)) == [1, 2, 2]


def test_two_that_share_the_first_rank_are_followed_by_the_third() -> None:
    entries = [
        make_entry(user=user, score_s=score_s, low_s=score_s * 0.99, high_s=score_s * 1.01, submission_id=id_)
        for id_, (user, score_s) in enumerate({"ada": 1.0, "bob": 1.005, "cyn": 1.1}.items())
    ]
    places = standings(entries)
    assert [(place.user, place.rank, place.tied) for place in places] == [
        ("ada", 1, True),
        ("bob", 1, True),
        ("cyn", 3, False),
    ]


def test_inside_a_band_the_lower_estimate_comes_first_then_the_earlier() -> None:
    same = {"low_s": 0.97, "high_s": 1.03}
    entries = [
        make_entry(user="late", score_s=1.0, submission_id=2, submitted_at=NOW + timedelta(hours=1), **same),
        make_entry(user="early", score_s=1.0, submission_id=1, **same),
        make_entry(user="best", score_s=0.99, submission_id=3, submitted_at=NOW + timedelta(hours=2), **same),
    ]
    assert [place.user for place in standings(entries)] == ["best", "early", "late"]


def test_who_lost_a_duel_stands_directly_behind_the_one_they_met() -> None:
    def entry(user: str, number: int, score_s: float, **more: float):
        return make_entry(
            user=user, score_s=score_s, submission_id=number, low_s=score_s, high_s=score_s, **more
        )

    first, third = entry("first", 1, 1.0), entry("third", 2, 1.01)
    challenger = entry("challenger", 3, 0.9, rank_s=math.nextafter(1.0, 2.0))
    places = standings([third, challenger, first])
    assert [(place.user, place.rank, place.score_s) for place in places] == [
        ("first", 1, 1.0),
        ("challenger", 1, 0.9),
        ("third", 3, 1.01),
    ]


@given(st.lists(spans, min_size=1, max_size=30), st.data())
def test_a_page_says_the_same_as_the_whole(found: list[Placed], data: st.DataObject) -> None:
    entries = [
        make_entry(user=f"u{number}", score_s=each.score_s, low_s=each.low_s, high_s=each.high_s)
        for number, each in enumerate(ordered(found))
    ]
    entries = [dataclasses.replace(each, submission_id=number) for number, each in enumerate(entries)]
    whole = standings(entries)
    begin = data.draw(st.integers(0, len(entries) - 1))
    end = data.draw(st.integers(begin + 1, len(entries)))
    ranks = list(band_heads(entry.placed for entry in entries[: end + 1]))
    page = ranked(entries[begin:end], ranks[begin:], after=ranks[begin - 1] if begin else None)
    assert page == whole[begin:end]


def test_results_that_differ_by_less_than_the_device_does_between_runs_are_tied() -> None:
    def span_of(time_ns: float, noise_share: float) -> Placed:
        found = scored(Timing(samples_ns=[time_ns + 2e3] * 10, offset_ns=2e3, noise_share=noise_share))
        return Placed(score_s=found.score_s, low_s=found.low_s, high_s=found.high_s)

    assert told_apart(span_of(100e3, 0.0), span_of(102e3, 0.0))
    assert not told_apart(span_of(100e3, 0.01), span_of(102e3, 0.01))
    quieter = span_of(100e3, 0.0001)
    assert quieter == span_of(100e3, 0.0)
