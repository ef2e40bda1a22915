"""After a change of its task a leaderboard ranks only what was judged as it judges now."""

from __future__ import annotations

import pytest

from builders import make_board, make_task
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.results import standings, table
from kernelcup.app.results.leader import beside
from kernelcup.app.results.rejudge import rejudge_board
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import OPERATOR, StageLimits
from kernelcup_harness.protocol import HarnessKind

OTHER = make_task(benchmarks=[{"size": 4096, "seed": 2}])


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, task=make_task(main="eval.py"))
    return Judging(db, clock)


def change(judging: Judging, task=None, **options) -> None:
    update_board(judging.db, OPERATOR, "double", task=task, now=judging.clock(), **options)


def remark_of(judging: Judging, submission) -> str:
    view = show_submission(judging.db, submission.id)
    return beside(judging.db, view).jobs[0].remark


def test_results_of_an_earlier_task_version_leave_the_standings(judging) -> None:
    judging.judge(1000), judging.judge(2000, user="bob")
    change(judging, OTHER)
    assert judging.ranking() == []
    judging.judge(9000, user="bob")
    assert judging.ranking() == [("bob", 9000)]
    assert standings.personal_best(judging.db, "double", "H100", "ada") is None
    assert [each.user for each in table.history(judging.db, "double", "H100")] == ["bob"]


@pytest.mark.parametrize("only_best", [False, True])
def test_results_come_back_as_they_are_judged_again(judging, only_best: bool) -> None:
    judging.judge(1500), judging.judge(1000)
    change(judging, OTHER)
    plan = rejudge_board(judging.db, OPERATOR, "double", only_best=only_best, now=judging.clock())
    assert plan.jobs == (1 if only_best else 2)
    assert judging.ranking() == []
    judging.finish(judging.claim(), 7000)
    assert judging.ranking() == [("ada", 7000)]


def test_other_texts_and_limits_move_no_result(judging) -> None:
    judging.judge(1000)
    changed = {
        "description": "Other words.",
        "templates": {"Python": "pass"},
        "limits": StageLimits(test_s=9),
    }
    change(judging, make_task(main="eval.py", **changed))
    judging.judge(2000, user="bob")
    assert judging.ranking() == [("ada", 1000), ("bob", 2000)]


def test_results_rank_again_once_the_task_is_what_it_was(judging) -> None:
    judging.judge(1000)
    change(judging, OTHER)
    judging.judge(500, user="bob")
    change(judging, make_task(main="eval.py"))
    assert judging.ranking() == [("ada", 1000)]


def test_what_is_judged_while_the_task_changes_does_not_rank(judging) -> None:
    submission = judging.submit()
    lease = judging.claim()
    change(judging, OTHER)
    judging.finish(lease, 100)
    judging.judge(9000, user="bob")
    assert judging.ranking() == [("bob", 9000)]
    assert "judged against an earlier version of the task" in remark_of(judging, submission)


def test_results_under_another_harness_do_not_rank_together(judging) -> None:
    judging.judge(1000)
    change(judging, changes=BoardChanges(harness=HarnessKind.OWN))
    assert judging.ranking() == []


def test_a_first_place_of_an_earlier_version_is_no_rival(judging) -> None:
    change(judging, changes=BoardChanges(duel=True))
    judging.judge(1000)
    change(judging, OTHER)
    judging.judge(900, user="bob")
    assert judging.ranking() == [("bob", 900)]
