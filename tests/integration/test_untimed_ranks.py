"""Ranks where times mean nothing, and where an interval is too wide for a tie."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import select

import ranking_model
from builders import make_board, make_case, make_entry, make_report, make_stage, make_task, make_wall_report
from hand_judging import Judging
from kernelcup import scoring
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.rank_changes import rank_changes
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.results import finals, overview
from kernelcup.app.results.leader import beside
from kernelcup.app.results.standings import personal_best, standings
from kernelcup.app.results.table import history
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import OPERATOR, RankedBy, RankingBy
from kernelcup.errors import InvalidValue
from kernelcup.tables import NewsRow
from kernelcup_harness.protocol import Backend, HarnessKind, RunReport, Timing, TrustLevel

COPIES = {"ada": 12.9e6, "bob": 2.3e6, "cyn": 271e6, "dan": 5.4e6, "eve": 3.1e6}
"""What five copies of one file took on an emulated device, in nanoseconds, in the order of their submission."""


@pytest.fixture
def judging(db, clock):
    make_board(db, devices=["H100", "cpu"])
    return Judging(db, clock)


def measured(time_ns: float, backend: Backend, share: float = 0.001, **more) -> RunReport:
    """Return a ranked run of a kind of device whose samples scatter by a share of their mean."""
    timing = Timing(samples_ns=[time_ns * (1 + share * (number % 5 - 2)) for number in range(20)])
    values = {"stages": [make_stage([make_case(timing=timing)])], "trust": TrustLevel.WALL_CLOCK} | more
    return make_report(backend=backend, comparable=backend is not Backend.EMULATED, **values)


def enter(judging: Judging, user: str, report: RunReport, device: str = "cpu"):
    submission = judging.submit(user, devices=[device])
    judging.finish(judging.claim(device), report=report)
    judging.clock.advance(60)
    return submission


def copies(judging: Judging, backend: Backend, **more) -> None:
    for user, time_ns in COPIES.items():
        enter(judging, user, measured(time_ns, backend, **more))


def places(judging: Judging) -> list[tuple[int, str, str]]:
    return [(each.rank, each.user, each.ranked_by) for each in standings(judging.db, "double", "cpu")]


def change(judging: Judging, **settings: object) -> None:
    update_board(judging.db, OPERATOR, "double", now=judging.clock(), changes=BoardChanges(**settings))


ALL_FIRST = [(1, user, RankedBy.CORRECTNESS) for user in COPIES]
BY_TIME = [
    (place, user, RankedBy.TIME)
    for place, user in enumerate(sorted(COPIES, key=lambda user: COPIES[user]), start=1)
]


@pytest.mark.parametrize(
    ("backend", "harness"), [(Backend.EMULATED, HarnessKind.OWN), (Backend.CPU, HarnessKind.STANDARD)]
)
def test_copies_share_the_first_place_in_their_order_where_times_mean_nothing(
    db, clock, backend, harness
) -> None:
    own = make_task(main="eval.py", sources={"eval.py": "", "reference.py": ""})
    task = own if harness is HarnessKind.OWN else make_task()
    make_board(db, devices=["cpu"], task=task, harness=harness)
    judging = Judging(db, clock)
    copies(judging, backend, harness=harness)
    assert places(judging) == ALL_FIRST
    shown = standings(judging.db, "double", "cpu")
    assert all(each.tied and each.time_s is None for each in shown)
    assert all((each.score.low_s, each.score.high_s) == (None, None) for each in shown)
    assert shown[0].score_s == pytest.approx(12.9e-3)


def test_the_first_correct_submission_of_a_user_stands_for_them(judging) -> None:
    first = enter(judging, "ada", measured(9e6, Backend.EMULATED))
    enter(judging, "bob", measured(5e6, Backend.EMULATED))
    enter(judging, "ada", measured(1e6, Backend.EMULATED))
    assert personal_best(judging.db, "double", "cpu", "ada").submission_id == first.id
    assert [each[:2] for each in places(judging)] == [(1, "ada"), (1, "bob")]


def test_times_of_an_emulated_device_never_rank(judging) -> None:
    change(judging, cpu_times=True)
    copies(judging, Backend.EMULATED)
    assert places(judging) == ALL_FIRST


def test_stored_results_are_ranked_again_when_the_setting_changes(judging) -> None:
    copies(judging, Backend.CPU)
    wanted = BoardChanges(cpu_times=True)
    (seen,) = rank_changes(judging.db, OPERATOR, "double", now=judging.clock(), changes=wanted)
    assert [(move.user, move.old_rank, move.new_rank) for move in seen.moves] == [
        ("ada", 1, 4),
        ("cyn", 1, 5),
        ("dan", 1, 3),
        ("eve", 1, 2),
    ]
    assert max(move.score_s for move in seen.moves) == pytest.approx(271e-3)
    change(judging, cpu_times=True)
    assert places(judging) == BY_TIME
    change(judging, cpu_times=False)
    assert places(judging) == ALL_FIRST


def test_times_that_mean_nothing_are_in_no_chart_summary_or_news(judging) -> None:
    copies(judging, Backend.CPU)
    db = judging.db
    assert history(db, "double", "cpu") == []
    assert overview.improvements(db, "double", "cpu").records == []
    assert overview.times_of_best(db, "double", "cpu") == []
    (summary,) = (each for each in overview.show_summary(db, "double").devices if each.device == "cpu")
    assert (summary.entries, summary.best_s) == (5, None)
    with db.read() as session:
        found = session.execute(select(NewsRow.kind, NewsRow.score_s, NewsRow.speedup)).all()
    # Each author's bell tells that the result is there.
    assert found == [("verdict", None, None)] * len(COPIES)


def test_times_that_rank_are_in_the_chart_and_make_news(judging) -> None:
    change(judging, cpu_times=True)
    copies(judging, Backend.CPU)
    assert len(overview.improvements(judging.db, "double", "cpu").records) == 5
    assert len(overview.times_of_best(judging.db, "double", "cpu")) == 5
    with judging.db.read() as session:
        assert "first_place" in session.scalars(select(NewsRow.kind)).all()


def test_a_final_is_refused_where_all_are_first(judging) -> None:
    copies(judging, Backend.CPU)
    change(judging, deadline=judging.clock())
    judging.clock.advance(60)
    with pytest.raises(InvalidValue, match="Times on cpu do not rank"):
        finals.start(judging.db, OPERATOR, "double", device="cpu", now=judging.clock())


def test_no_duel_is_held_for_a_first_place_that_all_share(judging) -> None:
    change(judging, duel=True)
    first = enter(judging, "ada", measured(9e6, Backend.CPU))
    submission = judging.submit("bob", devices=["cpu"])
    run = judging.finish(judging.claim("cpu"), report=measured(1e6, Backend.CPU), rival=first.id)
    assert (run.duel, run.rank_s) == ("", None)
    assert places(judging) == [(1, "ada", "correctness"), (1, "bob", "correctness")]
    assert submission.id != first.id


def remark_of(judging: Judging, submission) -> str:
    view = show_submission(judging.db, submission.id)
    return beside(judging.db, view).jobs[0].remark


def test_the_report_says_what_gave_a_result_its_place(judging) -> None:
    untimed = enter(judging, "ada", measured(9e6, Backend.CPU))
    assert "all correct results share the first place" in remark_of(judging, untimed)
    wide = enter(judging, "bob", measured(1e6, Backend.CUDA, 0.2), device="H100")
    (place,) = standings(judging.db, "double", "H100")
    assert place.ranked_by is RankedBy.UPPER_END
    assert place.score.high_s is not None
    told = f"Ranked as {place.score.high_s * 1e3:.3f} ms, the upper end of its interval"
    assert told in remark_of(judging, wide)
    narrow = enter(judging, "cyn", measured(1e6, Backend.CUDA, 0.01), device="H100")
    assert remark_of(judging, narrow) == ""


def test_a_wide_result_stands_behind_a_precise_one_that_it_seems_to_beat(judging) -> None:
    enter(judging, "wide", measured(1.00e6, Backend.CUDA, 0.2), device="H100")
    enter(judging, "precise", measured(1.02e6, Backend.CUDA, 0.001), device="H100")
    shown = standings(judging.db, "double", "H100")
    assert [(each.rank, each.user, each.ranked_by) for each in shown] == [
        (1, "precise", RankedBy.TIME),
        (2, "wide", RankedBy.UPPER_END),
    ]
    assert shown[1].score_s < shown[0].score_s


def test_copies_by_the_wall_clock_of_a_gpu_share_the_first_place(judging) -> None:
    """The times of one file in five jobs on an H100."""
    for number, time_ns in enumerate((1032e3, 824e3, 1171e3, 1053e3, 1094e3)):
        enter(judging, f"user-{number}", make_wall_report(time_ns), device="H100")
    enter(judging, "slower", make_wall_report(2000e3), device="H100")
    shown = standings(judging.db, "double", "H100")
    assert [each.rank for each in shown] == [1, 1, 1, 1, 1, 6]
    assert {each.ranked_by for each in shown[:5]} == {RankedBy.UPPER_END}


def test_the_database_ranks_as_the_function_does(judging) -> None:
    chance = random.Random(7)
    entries = []
    for number in range(24):
        time_ns, share = 1e6 * chance.uniform(1, 1.3), chance.choice([0.001, 0.01, 0.05, 0.2])
        report = measured(time_ns, Backend.CUDA, share)
        if chance.random() < 0.2:
            report = make_wall_report(time_ns)
        user = f"user-{number % 18}"
        at = judging.clock()
        submission = enter(judging, user, report, device="H100")
        score = scoring.score(report, RankingBy.LAST)
        assert score is not None
        entries.append(make_entry(user=user, submission_id=submission.id, submitted_at=at, score=score))
    expected = [(each.rank, each.tied, each.submission_id) for each in ranking_model.standings(entries)]
    shown = standings(judging.db, "double", "H100")
    assert [(each.rank, each.tied, each.submission_id) for each in shown] == expected
    wide = {each.submission_id: scoring.own_rank_s(each.score) != each.score_s for each in entries}
    assert {each.submission_id: each.ranked_by is RankedBy.UPPER_END for each in shown} == {
        each.submission_id: wide[each.submission_id] for each in shown
    }
    for each in shown:
        assert personal_best(judging.db, "double", "H100", each.user) == each
