"""How duels and finals decide: simulated, and by properties."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelcup_harness.protocol import duels
from kernelcup_harness.protocol.duels import (
    Final,
    Meeting,
    RatioEstimate,
    decide,
    final,
    log_ratios,
    outcome,
    over_cases,
    places,
    standing,
)
from properties import examples

MEASURED = Path(__file__).parents[2] / "benchmarks/results/duels-equal-h200.jsonl.gz"
NOISE = 0.004
"""Standard deviation of a single time on an H100, as a share, of kernels of 20 us."""


def kernels(
    chance: random.Random, difference: float, noise: float = NOISE
) -> duels.Callable[..., Sequence[float]]:
    """Return what gives logarithms of ratios of two kernels, one of which takes so much longer; 1 % are disturbed."""

    def more(_first: int, count: int) -> list[float]:
        drawn = [chance.gauss(difference, math.sqrt(2) * noise) for _ in range(count)]
        return [each + chance.choice([-0.3, 0.3]) if chance.random() < 0.01 else each for each in drawn]

    return more


def test_equal_kernels_tie_in_all_but_the_share_of_error() -> None:
    chance = random.Random(1)
    told = sum(decide(kernels(chance, 0.0))[0].is_apart for _ in range(300))

    assert told <= 12


def test_the_interval_includes_the_variation_between_loads() -> None:
    chance = random.Random(6)

    def duel(difference: float) -> RatioEstimate:
        loads = [chance.gauss(difference, 0.005) for _ in range(duels.LOADS)]
        noise = kernels(chance, 0.0)

        def more(first: int, count: int) -> list[float]:
            return [
                loads[number % duels.LOADS] + each
                for number, each in enumerate(noise(first, count), start=first)
            ]

        return decide(more)[0]

    assert sum(duel(0.0).is_apart for _ in range(300)) <= 12
    assert sum(duel(0.01).winner == 1 for _ in range(100)) >= 95


@pytest.mark.parametrize(("slow", "by"), [(1, 1.5), (6, 10.0)])
def test_a_side_that_makes_some_of_its_loads_slow_does_not_force_a_tie(slow: int, by: float) -> None:
    chance = random.Random(8)

    def duel() -> RatioEstimate:
        noise = kernels(chance, 0.02)
        slower = {number: math.log(by) for number in range(slow)}
        return decide(
            lambda first, count: [
                each + slower.get(number % duels.LOADS, 0.0)
                for number, each in enumerate(noise(first, count), start=first)
            ]
        )[0]

    assert all(duel().winner == 1 for _ in range(50))


@pytest.mark.parametrize("by", [1.5, 10.0])
def test_a_slow_load_forces_no_tie_with_one_pair_of_each_load_either(by: float) -> None:
    chance = random.Random(9)

    def duel() -> RatioEstimate:
        noise = kernels(chance, 0.02, 0.002)
        return decide(lambda first, _count: [*noise(first, 15), math.log(by)] if not first else [])[0]

    assert sum(duel().winner == 1 for _ in range(50)) >= 45


def test_equal_kernels_of_one_pair_of_each_load_tie_in_all_but_the_share_of_error() -> None:
    chance = random.Random(10)
    found = [decide(lambda first, _c: [] if first else kernels(chance, 0.0)(0, 16))[0] for _ in range(300)]

    assert sum(each.is_apart for each in found) <= 12


@pytest.mark.jobs
def test_equal_kernels_that_were_measured_tie_whichever_side_each_load_is_on() -> None:
    """24 duels of equal kernels on an H200, 1,280 pairs each, of which each load's sides are drawn again."""
    chance, apart, drawn = random.Random(7), 0, 0
    with gzip.open(MEASURED, "rt") as file:
        for line in file:
            found = json.loads(line)
            pairs = [tuple(ns - found["empty_ns"] for ns in pair) for pair in found["pairs_ns"]]
            ratios = log_ratios(pairs)
            for _ in range(10):
                signs = [chance.choice((-1, 1)) for _ in range(duels.LOADS)]
                swapped = [signs[number % duels.LOADS] * each for number, each in enumerate(ratios)]
                standing, _ = decide(lambda first, count, of=swapped: of[first : first + count])
                apart, drawn = apart + standing.is_apart, drawn + 1

    assert drawn == 240
    assert apart / drawn <= 2 * duels.ERROR


@pytest.mark.parametrize("difference", [0.01, -0.01])
def test_one_percent_is_told_apart_the_right_way_round(difference: float) -> None:
    chance = random.Random(2)
    found = [decide(kernels(chance, difference))[0] for _ in range(100)]

    assert {each.winner for each in found} == {int(difference > 0)}
    assert sum(each.pairs for each in found) < 200 * len(found)


def test_what_contexts_of_one_kernel_differ_by_decides_no_duel() -> None:
    chance = random.Random(5)

    assert sum(decide(kernels(chance, 0.0035))[0].is_apart for _ in range(100)) <= 5


def test_pairs_are_added_only_while_the_interval_holds_one() -> None:
    taken: list[tuple[int, int]] = []

    def equal(first: int, count: int) -> list[float]:
        taken.append((first, count))
        return [0.001, -0.001] * (count // 2)

    decide(equal)
    assert taken == [(0, 160), (160, 160), (320, 320), (640, 640)]

    taken.clear()
    decide(lambda first, count: taken.append((first, count)) or [0.01, 0.011] * (count // 2))
    assert taken == [(0, 160)]


def test_a_duel_whose_time_is_over_is_decided_by_the_pairs_that_there_are() -> None:
    equal = kernels(random.Random(3), 0.0)
    found, ratios = decide(lambda first, _count: equal(first, 0 if first else 48))

    assert (found.pairs, len(ratios)) == (48, 48)
    assert math.isfinite(found.half)


def test_the_interval_is_wider_the_less_error_is_allowed() -> None:
    chance = random.Random(4)
    ratios = [chance.gauss(0, 1) for _ in range(200)]

    assert standing(ratios, 0.001).half > standing(ratios, 0.02).half > standing(ratios * 4, 0.02).half


def test_no_time_of_a_ratio_is_below_a_nanosecond() -> None:
    assert log_ratios([(10.0, 20.0), (-1.0, 1.0)]) == pytest.approx([math.log(0.5), 0.0])


def test_the_report_has_the_ratio_of_all_cases_and_its_interval() -> None:
    cases = [[0.02, 0.02, 0.02, 0.0201] * 40, [0.0, 0.0, 0.0, 0.0001] * 40]
    ratios = over_cases(cases)
    told = outcome(standing(ratios, 0.005), ratios, cases)

    assert told.verdict == "slower"
    assert told.low < told.ratio < told.high
    assert told.ratio == pytest.approx(math.exp(0.01), abs=1e-3)
    assert (told.blocks, len(told.cases), told.pairs) == (160, 2, [160])


def told_by(logs: dict[str, float], half: float) -> duels.Callable[[str, str, float], RatioEstimate]:
    """Return duels that measure differences exactly, with an interval."""
    return lambda first, second, _error: RatioEstimate(logs[first] - logs[second], half, 160)


def test_six_that_are_one_percent_apart_come_in_their_order_from_any_other() -> None:
    logs = {name: 0.01 * number for number, name in enumerate("abcdef")}
    names = list(logs)
    random.Random(5).shuffle(names)
    found = final(names, told_by(logs, 0.004))

    assert found.order == list("abcdef")
    assert [found.places[name] for name in found.order] == [1, 2, 3, 4, 5, 6]


def test_neighbours_that_cannot_be_told_apart_share_a_place() -> None:
    logs = {"a": 0.0, "b": 0.001, "c": 0.02}
    found = final("abc", told_by(logs, 0.004))

    assert found.places == {"a": 1, "b": 1, "c": 3}


def test_each_duel_has_an_equal_part_of_the_error_of_as_many_as_there_can_be() -> None:
    errors = []

    def meet(first: str, second: str, error: float) -> RatioEstimate:
        errors.append(error)
        return RatioEstimate(-0.01, 0.001, 160)

    final("abcd", meet)
    assert errors == [pytest.approx(duels.ERROR / 6)] * 3


def test_names_that_have_not_met_do_not_share_a_place() -> None:
    def meet(first: str, second: str, _error: float) -> RatioEstimate:
        return RatioEstimate(-0.1 if first == "a" else 0.0, 0.01, 160)

    found = final("abc", meet)
    assert found.places == {"a": 1, "b": 2, "c": 2}
    assert [(each.first, each.second) for each in found.meetings] == [("a", "b"), ("b", "c"), ("a", "c")]


def test_duels_that_contradict_each_other_tell_nobody_apart() -> None:
    round_and_round = [
        Meeting("a", "b", RatioEstimate(-0.01, 0.001, 160)),
        Meeting("b", "c", RatioEstimate(-0.01, 0.001, 160)),
        Meeting("a", "c", RatioEstimate(0.01, 0.001, 160)),
    ]

    assert places("abc", round_and_round) == {"a": 1, "b": 1, "c": 1}


standings = st.tuples(st.floats(-0.1, 0.1), st.floats(0.0, 0.1)).map(lambda each: RatioEstimate(*each, 160))


@settings(max_examples=examples(300))
@given(
    names=st.permutations("abcdef").flatmap(lambda each: st.integers(0, 6).map(lambda count: each[:count])),
    drawn=st.lists(standings, min_size=15, max_size=15),
    all_pairs=st.booleans(),
)
def test_whatever_duels_say_a_final_ends_and_contradicts_none_that_it_can_keep(
    names: list[str], drawn: list[RatioEstimate], all_pairs: bool
) -> None:
    told = iter(drawn)
    found = final(names, lambda *_: next(told), all_pairs=all_pairs)

    assert sorted(found.order) == sorted(names)
    assert set(found.places) == set(names)
    assert not names or min(found.places.values()) == 1
    check_shared_places(found)
    for each in found.meetings:
        if each.faster is not None and not contradicted(found, each):
            other = each.second if each.faster == each.first else each.first
            assert found.places[each.faster] < found.places[other]


def check_shared_places(found: Final) -> None:
    """The order is that of the places, and names that share one have met and cannot be told apart."""
    assert [found.places[name] for name in found.order] == sorted(found.places.values())
    for one, other in itertools.combinations(found.order, 2):
        if found.places[one] == found.places[other]:
            (met,) = [each for each in found.meetings if {each.first, each.second} == {one, other}]
            assert met.faster is None or contradicted(found, met)


def contradicted(found: Final, meeting: Meeting) -> bool:
    """Tell whether other duels lead from the slower one back to the faster."""
    assert meeting.faster is not None
    reached, front = set(), {meeting.second if meeting.faster == meeting.first else meeting.first}
    while front:
        name = front.pop()
        reached.add(name)
        for each in found.meetings:
            if each.faster == name:
                front |= {each.first, each.second} - reached - {name}
    return meeting.faster in reached


def test_an_interval_is_not_narrower_for_more_pairs_of_loads_that_differ() -> None:
    loads = [duels.LOADS_DIFFER * (-1) ** (number + number // 2) for number in range(duels.LOADS)]
    few, many = (standing(loads * pairs, 0.02) for pairs in (2, 100))
    assert many.half == pytest.approx(few.half)
    assert many.half > 2 * duels.LOADS_DIFFER / math.sqrt(duels.LOADS)
