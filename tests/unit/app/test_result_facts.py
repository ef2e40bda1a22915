"""What stands beside the times of a ranking, and leaderboards at a glance."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from builders import (
    NOW,
    make_actor,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
)
from kernelcup.app.courses import membership
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import overview, standings
from kernelcup.app.results.facts import Remembered, facts_of
from kernelcup.app.results.overview import summary_of
from kernelcup.domain import NOBODY, OPERATOR, RankingBy, Visibility
from kernelcup.engine import database_of
from kernelcup.engine.database import Database
from kernelcup.scoring import beside_s
from kernelcup_harness.protocol import Verdict


def report_of(*, references=(4000.0, 8000.0), floors=(500.0, 1000.0), **overrides):
    """Return a report of two cases of 1 and 2 us."""
    cases = [
        make_case(time, index=index, reference_ns=reference, floor_ns=floor)
        for index, (time, reference, floor) in enumerate(
            zip((1000.0, 2000.0), references, floors, strict=True)
        )
    ]
    return make_report(stages=[make_stage(cases)], **overrides)


def enter(db, user="ada", *, report=None, at=NOW, **submission):
    """Submit and judge, and return the submission's number."""
    made = make_submission(db, user=user, now=at, **({"board": "double"} | submission))
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=at)
    assert lease is not None
    lifecycle.finish(db, lease, report=report or report_of(), harness_hash="f", machine="m", now=at)
    return made.id


@pytest.mark.parametrize(
    ("rule", "expected"), [(RankingBy.LAST, 8e-6), (RankingBy.MEAN, 6e-6), (RankingBy.GEOM, 32**0.5 * 1e-6)]
)
def test_other_times_are_combined_as_the_score_is(rule, expected) -> None:
    assert beside_s(report_of(), rule, lambda case: case.reference_ns) == pytest.approx(expected)


def test_other_time_is_unknown_where_a_case_that_counts_has_none() -> None:
    report = report_of(references=(None, 8000.0))
    assert beside_s(report, RankingBy.GEOM, lambda case: case.reference_ns) is None
    assert beside_s(report, RankingBy.LAST, lambda case: case.reference_ns) == pytest.approx(8e-6)
    assert beside_s(make_report(stages=[]), RankingBy.LAST, lambda case: 1.0) is None


def test_place_has_share_speedup_and_what_it_is_made_of(db) -> None:
    make_board(db)
    enter(db, content=b"import triton\nx = 1\n")
    places = standings.standings(db, "double", "H100")
    facts = facts_of(db, "double", "H100", places)[places[0].submission_id]
    assert facts.speedup(places[0].score_s) == pytest.approx(4.0)
    assert facts.share(places[0].score_s) == pytest.approx(0.5)
    assert facts.made_of is not None
    assert (facts.made_of.names, facts.made_of.lines) == (("Triton",), 2)


def test_pseudonymous_board_tells_what_ones_own_is_made_of_only(db) -> None:
    make_board(db, pseudonymous=True)
    for name in ("ada", "bob"):
        enter(db, name)
    ada = make_actor(db, "ada")
    places = standings.standings(db, "double", "H100", viewer=ada)
    facts = facts_of(db, "double", "H100", places, viewer=ada)
    assert {each.user: facts[each.submission_id].made_of is None for each in places}["ada"] is False
    assert sum(each.made_of is None for each in facts.values()) == 1


def test_summary_has_entries_best_and_reference_of_each_device(db) -> None:
    make_board(db, devices=["H100", "MI300"])
    enter(db, devices=["H100"])
    enter(db, "bob", devices=["H100"])
    shown = overview.show_summary(db, "double", viewer=NOBODY)
    h100, mi300 = shown.devices
    assert (h100.entries, mi300.entries, mi300.best_s) == (2, 0, None)
    assert h100.best_s == pytest.approx(2e-6)
    assert h100.reference_s == pytest.approx(8e-6)
    assert shown.summary == "Double every element."


def test_summary_of_a_frozen_board_is_that_of_the_freeze(db) -> None:
    make_board(db, freeze_at=NOW + timedelta(hours=1))
    enter(db, report=report_of())
    fast = report_of()
    cases = [dataclasses.replace(case, timing=make_case(10.0).timing) for case in fast.stages[0].cases]
    enter(db, "bob", report=make_report(stages=[make_stage(cases)]), at=NOW + timedelta(hours=2))
    assert overview.show_summary(db, "double", viewer=NOBODY).devices[0].entries == 1
    assert overview.show_summary(db, "double", viewer=NOBODY).devices[0].best_s == pytest.approx(2e-6)
    assert overview.show_summary(db, "double", viewer=OPERATOR).devices[0].entries == 2


def test_overview_leaves_out_what_somebody_does_not_see_and_does_not_search(db) -> None:
    make_board(db)
    make_board(db, name="closed", visibility=Visibility.CLOSED)
    ada = make_actor(db, "ada")
    membership.add_member(db, OPERATOR, "closed", "ada", now=NOW)
    assert [each.board.name for each in overview.list_summaries(db, viewer=NOBODY)] == ["double"]
    assert [each.board.name for each in overview.list_summaries(db, viewer=ada)] == ["closed", "double"]
    assert [each.board.name for each in overview.list_summaries(db, words="Element h100")] == [
        "closed",
        "double",
    ]
    assert overview.list_summaries(db, words="none") == []


def test_improvements_and_times_stop_at_a_freeze(db) -> None:
    make_board(db, freeze_at=NOW + timedelta(hours=1))
    enter(db)
    enter(db, "bob", at=NOW + timedelta(hours=2))
    assert [each.user for each in overview.improvements(db, "double", "H100", viewer=NOBODY).records] == [
        "ada"
    ]
    assert [each.user for each in overview.times_of_best(db, "double", "H100", viewer=NOBODY)] == ["ada"]
    assert len(overview.improvements(db, "double", "H100").records) == 2


def test_times_leave_out_what_failed_or_waits(db) -> None:
    make_board(db)
    enter(db)
    enter(db, report=make_report(verdict=Verdict.WRONG_ANSWER, stages=[]), at=NOW + timedelta(hours=1))
    make_submission(db, board="double", now=NOW + timedelta(hours=2))
    (row,) = overview.times_of_best(db, "double", "H100")
    assert (row.user, len(row.seconds)) == ("ada", 1)


def test_history_longer_than_shown_begins_with_the_best_before(db, monkeypatch) -> None:
    monkeypatch.setattr(overview, "MOST_RECORDS", 1)
    make_board(db)
    enter(db)
    enter(db, "bob", at=NOW + timedelta(hours=1))
    found = overview.improvements(db, "double", "H100")
    assert [each.user for each in found.records] == ["bob"]
    assert found.before_s == pytest.approx(2e-6)


def test_summary_is_the_first_sentence_without_marks() -> None:
    assert summary_of("# Task\n\nDouble `x` **fast**. And more.") == "Double x fast."
    assert summary_of("See [the paper](https://a.example/b).") == "See the paper."
    assert summary_of("") == ""
    assert summary_of("Blur each `w_k` and x_i, _softly_.") == "Blur each w_k and x_i, softly."
    assert summary_of("$y = x$\n\n<b>1</b>\n\n![f](f.png)\n\nBlur it. Now.") == "Blur it."
    assert summary_of("For each $y_i$.") == ""
    assert len(summary_of("word " * 100)) <= overview.LONGEST_SUMMARY + 2


def test_what_was_read_once_is_remembered_and_the_oldest_forgotten() -> None:
    asked: list[int] = []

    def read(keys):
        asked.extend(keys)
        return {key: str(key) for key in keys}

    known: Remembered[int, str] = Remembered(most=2)
    assert known.get("a", [1, 2], read) == {1: "1", 2: "2"}
    assert known.get("a", [1], read) == {1: "1"}
    assert known.get("b", [1], read) == {1: "1"}
    known.get("a", [2], read)
    assert asked == [1, 2, 1, 2]


def test_values_of_a_database_are_not_those_of_another_with_its_address(db: Database, db_url: str) -> None:
    with Database.open(db_url) as again, db.read() as one, db.read() as same, again.read() as other:
        assert database_of(one) == database_of(same)
        assert database_of(one) != database_of(other)
