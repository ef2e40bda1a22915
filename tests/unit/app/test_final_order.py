"""The decision about a final, from what is stored."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelcup.app.results.final_order import by_intervals, decide
from kernelcup.app.results.queries.finals import Finalist, Held
from kernelcup.domain import Compared, JobState, Score
from kernelcup_harness.protocol import DuelResult, Verdict

ERROR = 0.02


def contestant(number: int, score_s: float = 1.0, **overrides: Any) -> Finalist:
    values: dict[str, Any] = {
        "submission_id": number,
        "rank": number,
        "score_s": score_s,
        "low_s": score_s * 0.99,
        "high_s": score_s / 0.99,
        "in_turns": True,
    }
    return Finalist(**(values | overrides))


def held(first: int, second: int, ratio: float, **overrides: Any) -> Held:
    low, high = ratio * 0.995, ratio / 0.995
    verdict = "faster" if high < 1 else "slower" if low > 1 else "tied"
    values: dict[str, Any] = {
        "first_id": first,
        "second_id": second,
        "comparison_id": 100 + first,
        "state": JobState.DONE,
        "verdict": Verdict.ACCEPTED,
        "duel": DuelResult(ratio=ratio, low=low, high=high, verdict=verdict, blocks=20),
    }
    return Held(**(values | overrides))


def play(times: list[float]) -> tuple[list[tuple[int, int]], list[Held]]:
    """Hold the duels that are due, one after the other; return submissions with their places, and the duels."""
    entries, duels = [contestant(number, 1.0 + number) for number in range(len(times))], list[Held]()
    while (found := decide(entries, duels, ERROR)).due is not None:
        due = found.due
        assert due.error == pytest.approx(ERROR / math.comb(len(times), 2))
        duels.append(held(due.first_id, due.second_id, times[due.first_id] / times[due.second_id]))
    return [(each.submission_id, each.place) for each in found.places], duels


TIMES = st.lists(st.sampled_from([1.0, 1.001, 1.1, 1.2, 1.3]), min_size=2, max_size=6)


@given(TIMES)
def test_the_order_is_that_of_the_true_times_and_each_pair_meets_once_at_most(times: list[float]) -> None:
    places, duels = play(times)
    assert {number for number, _ in places} == set(range(len(times)))
    for (faster, place), (slower, behind) in itertools.combinations(places, 2):
        assert place <= behind
        assert times[faster] <= times[slower] + 0.01
    assert len({frozenset((each.first_id, each.second_id)) for each in duels}) == len(duels)


def test_a_duel_that_was_held_the_other_way_round_counts() -> None:
    found = decide([contestant(1), contestant(2)], [held(2, 1, 0.9)], ERROR)
    (meeting,) = found.meetings
    assert (meeting.first, meeting.faster) == (1, 2)
    assert meeting.ratio == pytest.approx(1 / 0.9)
    assert [(each.submission_id, each.place) for each in found.places] == [(2, 1), (1, 2)]


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
def test_a_duel_that_has_not_ended_is_due(state: JobState) -> None:
    waiting = held(1, 2, 0.9, state=state, verdict=None, duel=None)
    found = decide([contestant(1), contestant(2)], [waiting], ERROR)
    assert found.due is not None
    assert (found.meetings, found.places) == ([], [])


def test_a_duel_that_is_held_for_a_review_decides_nothing() -> None:
    doubtful = held(1, 2, 1.5, state=JobState.QUARANTINED)
    (meeting,) = decide([contestant(1), contestant(2, 1.2)], [doubtful], ERROR).meetings
    assert (meeting.by, meeting.faster, meeting.why) == (
        Compared.INTERVALS,
        1,
        "their duel waits for a review",
    )


def test_one_that_remains_is_first() -> None:
    found = decide([contestant(7)], [], ERROR)
    assert [(each.submission_id, each.place) for each in found.places] == [(7, 1)]


def test_intervals_of_ranked_times_are_widened_to_the_error() -> None:
    one, other = (Score(score_s=each, low_s=each * 0.99, high_s=each / 0.99) for each in (1.0, 1.02))
    assert by_intervals(one, other, 0.05).winner == 0
    assert by_intervals(one, other, 0.05).half == pytest.approx(math.sqrt(2) * -math.log(0.99))
    assert by_intervals(one, other, 0.0001).winner is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (contestant(1), contestant(2, 2.0, low_s=None, high_s=None)),
        (contestant(1), contestant(2, 2.0, low_s=0.0)),
    ],
)
def test_times_of_which_too_little_is_known_are_not_told_apart(one: Finalist, other: Finalist) -> None:
    assert by_intervals(one, other, ERROR).winner is None
    walls = [one, other]
    (meeting,) = decide(walls, [held(1, 2, 1.0, verdict=Verdict.WRONG_ANSWER, duel=None)], ERROR).meetings
    assert (meeting.ratio, meeting.low, meeting.high, meeting.faster) == (None, None, None, None)
