from __future__ import annotations

import pytest

from kernelcup.domain import DuelOutcome
from kernelcup.reporting.phrases import (
    duel_remark,
    duel_sentence,
    duration,
    interval_text,
    percent,
    rank_text,
    significant,
    times_as_fast,
    with_interval,
)
from kernelcup_harness.protocol import DuelResult


def told(**values: object) -> str:
    return duel_sentence(DuelResult(**({"blocks": 20} | values)), "A", "B")


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (4.02, "4.02 times as fast as A"),
        (1.0, "1.00 times as fast as A"),
        (0.97, "3.1 % slower than A"),
        (0.8, "25 % slower than A"),
        (0.25, "4 times slower than A"),
    ],
)
def test_what_is_slower_is_not_called_some_times_as_fast(factor: float, text: str) -> None:
    assert times_as_fast(factor, "A") == text


def test_a_duel_that_was_won_says_by_how_much() -> None:
    text = told(ratio=1 / 1.031, low=1 / 1.04, high=1 / 1.022, verdict="faster")
    assert text == "A is 3.1 % faster than B (98 % interval 2.2 to 4.0 %)."


def test_too_little_or_nothing_measured_is_said() -> None:
    assert told(high=float("inf")) == "A and B cannot be told apart: too little was measured."
    assert told(verdict="", rival_message="it is wrong") == "B could not be measured: it is wrong."
    assert told(verdict="not_held", rival_message="no time") == "A and B could not be compared: no time."
    assert told(verdict="", rival_message="") == "B could not be measured: no reason is known."
    trace = "Traceback (most recent call last):\nValueError: why.\n"
    assert told(verdict="", rival_message=trace) == f"B could not be measured: {trace.strip()}"


@pytest.mark.parametrize("outcome", [each for each in DuelOutcome if each is not DuelOutcome.NONE])
def test_each_outcome_of_a_duel_is_a_sentence(outcome: DuelOutcome) -> None:
    assert duel_remark(outcome, 7).endswith(".")
    assert duel_remark(DuelOutcome.NONE, 7) == ""


def test_times_ranks_and_intervals_are_short() -> None:
    assert interval_text(13_420.0, 13_390.0, 13_450.0) == "13.39 to 13.45"
    assert interval_text(13_420.0, None, 13_450.0) == ""
    assert with_interval(13_420.0, 13_390.0, 13_450.0) == "13.42 µs (13.39 to 13.45)"
    assert duration(2_050.0) == "2.05 µs"
    assert (rank_text(1, tied=True), rank_text(3, tied=False)) == ("1=", "3")
    assert [significant(each, 3) for each in (999.4, 999.6, 99.96, 1000.4)] == ["999", "1000", "100", "1000"]
    assert (percent(0.813), percent(0.0204)) == ("81 %", "2.0 %")
