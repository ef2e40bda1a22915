"""What is submitted after the deadline: refused, tried, or ranked apart; the final standings stay as they are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import make_board
from fakes import FakeClock
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.late_exceptions import grant_late
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.news import stream
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.results import comparisons, finals, table
from kernelcup.app.results.freezes import freeze
from kernelcup.app.results.leader import beside
from kernelcup.app.results.overview import improvements, times_of_best
from kernelcup.app.results.profile import show_profile
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, AfterDeadline, JobState, Priority, Ruling
from kernelcup.engine.database import Database
from kernelcup.errors import DeadlinePassed, Forbidden
from kernelcup_harness.protocol import Mode

CLOSES_IN = timedelta(hours=1)
UNRANKED = (Mode.TEST, Mode.BENCHMARK, Mode.PROFILE)


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    """A leaderboard that is over, and takes ranked submissions as practice: ada is first, bob second."""
    make_board(db, deadline=clock() + CLOSES_IN, after_deadline=AfterDeadline.PRACTICE)
    judging = Judging(db, clock)
    judging.judge(1000, "ada")
    judging.judge(2000, "bob")
    clock.advance(CLOSES_IN.total_seconds() + 1)
    return judging


def set_after(judging: Judging, rule: AfterDeadline) -> None:
    update_board(
        judging.db, OPERATOR, "double", now=judging.clock(), changes=BoardChanges(after_deadline=rule)
    )


def shown(judging: Judging, viewer=OPERATOR) -> table.Table:
    return table.show(judging.db, viewer, "double", "H100", now=judging.clock())


def practised(judging: Judging, viewer=OPERATOR) -> list[tuple[int, str, int]]:
    """Return the practice table."""
    found = shown(judging, viewer).practice
    return [(each.rank, each.user, round(each.score_s * 1e9)) for each in found]


def test_tests_benchmarks_and_profiles_stay_open_unless_a_manager_closes_them(judging: Judging) -> None:
    set_after(judging, AfterDeadline.UNRANKED)
    for mode in UNRANKED:
        judging.submit("cyn", mode=mode)
    with pytest.raises(DeadlinePassed, match="still takes tests, benchmarks and profiles"):
        judging.submit("cyn")
    set_after(judging, AfterDeadline.CLOSED)
    for mode in (*UNRANKED, Mode.LEADERBOARD):
        with pytest.raises(DeadlinePassed, match=r"UTC\.$"):
            judging.submit("cyn", mode=mode)


def test_practice_has_a_table_of_its_own_and_changes_nothing_else(judging: Judging) -> None:
    db = judging.db
    before = shown(judging)
    news = stream.items(db, NOBODY)
    faster = judging.judge(500, "cyn")
    judging.judge(700, "cyn")
    judging.judge(400, "ada")

    after = shown(judging)
    assert after.items == before.items
    assert judging.ranking() == [("ada", 1000), ("bob", 2000)]
    assert practised(judging) == practised(judging, NOBODY) == [(1, "ada", 400), (2, "cyn", 500)]
    (view,) = beside(db, show_submission(db, faster.id)).jobs
    assert view.ruling is Ruling.PRACTICE
    assert view.remark == "Practice: it was submitted after the deadline, and changes nothing of the ranking."
    assert {each.user for each in improvements(db, "double", "H100").records} == {"ada", "bob"}
    assert [len(each.seconds) for each in times_of_best(db, "double", "H100")] == [1, 1]
    assert show_profile(db, "cyn", viewer=NOBODY).bests == ()
    assert stream.items(db, NOBODY) == news


def test_practice_waits_behind_ranked_submissions_of_others(judging: Judging) -> None:
    practice = judging.submit("cyn")
    assert judging.job(practice).priority is Priority.PRACTICE
    assert judging.job(practice).practice


def test_a_late_exception_still_ranks_and_ends_as_practice(judging: Judging) -> None:
    until = judging.clock() + timedelta(hours=1)
    judging.submit("cyn", mode=Mode.TEST)
    judging.finish(judging.claim())
    grant_late(judging.db, OPERATOR, "double", "cyn", until, now=judging.clock())
    judging.judge(1500, "cyn")
    judging.clock.advance(3601)
    judging.judge(100, "cyn")
    assert judging.ranking() == [("ada", 1000), ("cyn", 1500), ("bob", 2000)]
    assert practised(judging) == [(1, "cyn", 100)]


def test_a_deadline_that_moves_leaves_practice_what_it_was(judging: Judging) -> None:
    judging.judge(500, "cyn")
    moved = BoardChanges(deadline=judging.clock() + CLOSES_IN)
    update_board(judging.db, OPERATOR, "double", now=judging.clock(), changes=moved)
    judging.judge(800, "cyn")
    assert judging.ranking() == [("cyn", 800), ("ada", 1000), ("bob", 2000)]
    assert practised(judging) == [(1, "cyn", 500)]


def test_practice_that_is_judged_again_stays_practice(judging: Judging) -> None:
    made = judging.judge(500, "cyn")
    rejudge_submission(judging.db, OPERATOR, made.id, now=judging.clock())
    judging.finish(judging.claim(), 300)
    assert practised(judging) == [(1, "cyn", 300)]
    assert judging.ranking() == [("ada", 1000), ("bob", 2000)]


def test_a_final_does_not_wait_for_practice_and_has_none_in_it(judging: Judging) -> None:
    judging.judge(500, "cyn")
    judging.submit("dan")
    started = finals.start(judging.db, actor_of(judging.db, "grace"), "double", now=judging.clock())
    assert started.entries == 2


def test_practice_challenges_no_first_place(judging: Judging) -> None:
    update_board(
        judging.db, OPERATOR, "double", now=judging.clock(), changes=BoardChanges(duel=True, cpu_times=True)
    )
    made = judging.judge(500, "cyn")
    run = judging.run(made)
    assert run is not None
    assert (run.rival, run.rank_s) == (None, None)


def test_a_practice_result_is_compared_with_the_first_of_the_final_standings(judging: Judging) -> None:
    db, now = judging.db, judging.clock()
    first = shown(judging).items[0].submission_id
    tried = judging.submit("cyn", mode=Mode.BENCHMARK)
    judging.finish(judging.claim())
    with pytest.raises(Forbidden, match="You have no place"):
        comparisons.start(db, actor_of(db, "cyn"), tried.id, first, now=now)
    made = judging.judge(500, "cyn")
    found = comparisons.start(db, actor_of(db, "cyn"), made.id, first, now=now)
    assert (found.first, found.second, found.state) == (made.id, first, JobState.QUEUED)


def test_a_freeze_hides_practice_of_later(judging: Judging) -> None:
    judging.judge(500, "cyn")
    freeze(judging.db, OPERATOR, "double", judging.clock() + timedelta(seconds=1), now=judging.clock())
    judging.clock.advance(2)
    judging.judge(300, "dan")
    assert practised(judging, NOBODY) == [(1, "cyn", 500)]
    assert practised(judging) == [(1, "dan", 300), (2, "cyn", 500)]


def test_an_author_deletes_practice_for_good(judging: Judging) -> None:
    made = judging.judge(500, "cyn")
    assert not delete_submission(
        judging.db, made.id, by=actor_of(judging.db, "cyn"), now=judging.clock()
    ).withdrawn
    assert practised(judging) == []
