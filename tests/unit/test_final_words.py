"""Finals in words."""

from __future__ import annotations

import dataclasses

import pytest

from builders import NOW
from kernelcup.domain import Compared, Final, Meeting
from kernelcup.reporting.finals import meeting_sentence, state_text

DUEL = Meeting(first=5, second=7, by=Compared.DUEL, ratio=0.9, low=0.89, high=0.91, faster=5)


@pytest.mark.parametrize(
    ("meeting", "sentence"),
    [
        (DUEL, "#5 is 11.1 % faster than #7 (simultaneous interval 9.9 to 12.4 %)."),
        (
            dataclasses.replace(DUEL, ratio=1.1, low=1.09, high=1.11, faster=7),
            "#7 is 10.0 % faster than #5 (simultaneous interval 9.0 to 11.0 %).",
        ),
        (
            dataclasses.replace(DUEL, ratio=1.0, low=0.99, high=1.02, faster=None),
            (
                "#5 and #7 cannot be told apart: #5 takes between 1.0 % less and 2.0 % more time than #7 "
                "(simultaneous interval)."
            ),
        ),
        (
            dataclasses.replace(DUEL, by=Compared.INTERVALS, why="their duel was cancelled"),
            (
                "Not decided by a duel, since their duel was cancelled; by their ranked times, #5 is 11.1 % faster "
                "than #7 (simultaneous interval 9.9 to 12.4 %)."
            ),
        ),
        (
            Meeting(
                first=5,
                second=7,
                by=Compared.INTERVALS,
                ratio=None,
                low=None,
                high=None,
                faster=None,
                why="x",
            ),
            "Not decided by a duel, since x; by their ranked times, nothing tells #5 and #7 apart.",
        ),
    ],
)
def test_a_meeting_says_who_is_faster_and_how_that_was_found(meeting: Meeting, sentence: str) -> None:
    assert meeting_sentence(meeting) == sentence


def test_a_final_says_how_far_it_is() -> None:
    final = Final(
        id=1,
        leaderboard="double",
        device="H100",
        entries=3,
        error=0.02,
        started_by="grace",
        started_at=NOW,
        ended_at=None,
        places=[],
        meetings=[DUEL],
        void=[],
        waiting=12,
    )
    told = "The final is being held: 3 submissions, 1 meeting so far; the duel in the queue is #12."
    assert state_text(final) == told
    assert state_text(dataclasses.replace(final, ended_at=NOW, waiting=None)) == (
        "Held on 2026-06-01 12:00 UTC: 3 submissions, 1 meeting. All intervals hold together in at least 98 % of "
        "finals; entries that cannot be told apart share a place."
    )
    void = dataclasses.replace(final, ended_at=NOW, waiting=None, void=[3, 7])
    assert state_text(void).endswith(
        "It is void: the result of #3, #7 was put aside since, so another final is due."
    )
