"""Judging anew: the old result counts until the new one is stored, and then never again."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from builders import make_actor, make_board, make_report, make_task
from hand_judging import Judging
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.people import audit_log
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.rejudge import rejudge_board, rejudge_submission
from kernelcup.app.results.table import history
from kernelcup.app.submissions import events
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import NOBODY, OPERATOR, JobState, Priority, Role
from kernelcup.errors import Forbidden, NotFound, SignInNeeded, StaleLease
from kernelcup.tables import LeaderboardRow, RunRow
from kernelcup_harness.protocol import Mode, Verdict


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, devices=["H100", "A100"])
    return Judging(db, clock)


def rejudge(judging: Judging, submission, **options):
    return rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock(), **options)


def rejudge_all(judging: Judging, **options):
    return rejudge_board(judging.db, OPERATOR, "double", now=judging.clock(), **options)


def counted(judging: Judging) -> list[tuple[int, bool]]:
    with judging.db.read() as session:
        query = select(RunRow.attempt, RunRow.counted).order_by(RunRow.id)
        return [(attempt, is_counted) for attempt, is_counted in session.execute(query)]


def change_task(judging: Judging) -> str:
    with judging.db.write() as session:
        task_hash = task_versions.save(session, make_task(description="New."), now=judging.clock())
        session.execute(update(LeaderboardRow).values(task_hash=task_hash))
    return task_hash


def test_a_job_that_is_done_waits_again_with_a_new_attempt_behind_all_others(judging) -> None:
    submission = judging.judge()
    plan = rejudge(judging, submission)
    job = judging.job(submission)
    assert (plan.submissions, plan.jobs, plan.by_device) == (1, 1, {"H100": 1})
    assert (job.state, job.attempt, job.first_attempt) == (JobState.QUEUED, 2, 2)
    assert (job.priority, job.queued_at) == (Priority.REJUDGE, judging.clock())


def test_the_old_result_counts_until_the_new_one_is_stored(judging) -> None:
    submission = judging.judge(1000)
    rejudge(judging, submission)
    assert judging.ranking() == [("ada", 1000)]
    lease = judging.claim()
    assert judging.ranking() == [("ada", 1000)]
    judging.finish(lease, 3000)
    assert judging.ranking() == [("ada", 3000)]
    assert counted(judging) == [(1, False), (2, True)]
    assert judging.run(submission).attempt == 2


def test_the_best_may_become_another_submission(judging) -> None:
    best, _other = judging.judge(1000), judging.judge(2000)
    rejudge(judging, best)
    judging.finish(judging.claim(), 3000)
    assert judging.ranking() == [("ada", 2000)]


def test_a_result_without_a_score_takes_the_old_score_away(judging) -> None:
    submission = judging.judge(1000)
    rejudge(judging, submission)
    judging.finish(judging.claim(), report=make_report(verdict=Verdict.WRONG_ANSWER))
    assert judging.ranking() == []


def test_a_score_that_comes_only_with_the_new_judgement_ranks(judging) -> None:
    submission = judging.submit()
    judging.finish(judging.claim(), report=make_report(verdict=Verdict.WRONG_ANSWER))
    rejudge(judging, submission)
    judging.finish(judging.claim(), 500)
    assert judging.ranking() == [("ada", 500)]


def test_the_history_has_the_runs_that_count(judging) -> None:
    submission = judging.judge(1000)
    for time_ns in (3000, 800):
        rejudge(judging, submission)
        judging.finish(judging.claim(), time_ns)
    judging.judge(900)
    judging.judge(700)
    shown = history(judging.db, "double", "H100")
    assert [round(each.score_s * 1e9) for each in shown] == [700, 800]


def test_the_task_of_today_is_what_it_is_judged_against(judging) -> None:
    submission = judging.judge()
    task_hash = change_task(judging)
    assert rejudge(judging, submission, dry_run=True).other_version == 1
    rejudge(judging, submission)
    lease = judging.claim()
    assert lease.job.task_hash == task_hash
    assert judging.finish(lease).task_hash == task_hash
    assert rejudge(judging, submission, dry_run=True).other_version == 0


def test_machines_that_fail_leave_the_old_result(judging) -> None:
    submission = judging.judge(1000)
    rejudge(judging, submission)
    for attempt in (3, 4):
        assert lifecycle.fail_attempt(judging.db, judging.claim(), reason="lost", now=judging.clock()) is None
        assert judging.job(submission).attempt == attempt
    run = lifecycle.fail_attempt(judging.db, judging.claim(), reason="lost", now=judging.clock())
    assert run.verdict is Verdict.INTERNAL_ERROR
    assert "in 3 attempts" in run.report.message
    assert judging.run(submission).attempt == 1
    assert judging.ranking() == [("ada", 1000)]
    assert judging.job(submission).state is JobState.DONE
    rejudge(judging, submission)
    judging.finish(judging.claim(), 900)
    assert judging.ranking() == [("ada", 900)]


@pytest.mark.parametrize("is_running", [False, True])
def test_a_rejudge_that_is_cancelled_leaves_the_job_done_with_its_result(judging, is_running: bool) -> None:
    submission = judging.judge(1000)
    rejudge(judging, submission)
    lease = judging.claim() if is_running else None
    assert cancel_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock()).cancelled_jobs == 1
    assert judging.job(submission).state is JobState.DONE
    assert judging.run(submission).attempt == 1
    assert judging.ranking() == [("ada", 1000)]
    if lease is not None:
        with pytest.raises(StaleLease):
            judging.finish(lease)
    rejudge(judging, submission)
    judging.finish(judging.claim(), 800)
    assert judging.ranking() == [("ada", 800)]


def test_a_dry_run_changes_nothing_and_tells_the_same(judging) -> None:
    for user in ("ada", "bob"):
        judging.judge(user=user)
    told = rejudge_all(judging, dry_run=True)
    assert (told.jobs, told.standing, told.dry_run) == (2, 2, True)
    assert told.estimated_gpu_s == pytest.approx(2 * judging.pace_s)
    assert judging.claim() is None
    assert audit_log.entries(judging.db, OPERATOR, action="board.rejudge") == []


def test_a_board_is_judged_anew_with_turns_between_users(judging) -> None:
    ada = [judging.judge(user="ada").id for _ in range(2)]
    bob = [judging.judge(user="bob").id for _ in range(2)]
    judging.judge(mode=Mode.TEST)
    waiting = judging.submit("cyn")
    plan = rejudge_all(judging)
    assert (plan.jobs, plan.standing) == (4, 2)
    assert plan.left_out == {"not judged yet, or being judged again": 1}
    order = [judging.claim().job.submission_id for _ in range(5)]
    assert order == [waiting.id, ada[0], bob[0], ada[1], bob[1]]
    assert rejudge_all(judging).jobs == 0


def test_only_the_best_or_only_one_device_can_be_judged_anew(judging) -> None:
    judging.judge(2000)
    best = judging.judge(1000)
    judging.submit(devices=["A100"])
    judging.finish(judging.claim("A100"))
    plan = rejudge_all(judging, only_best=True, device="h100")
    assert (plan.jobs, plan.by_device) == (1, {"H100": 1})
    assert judging.job(best).state is JobState.QUEUED


def test_a_submission_on_several_devices_is_judged_anew_on_each(judging) -> None:
    submission = judging.submit(devices=["H100", "A100"])
    for device in ("H100", "A100"):
        judging.finish(judging.claim(device))
    assert rejudge(judging, submission).by_device == {"A100": 1, "H100": 1}


def test_who_manages_the_leaderboard_may_and_it_is_written_down(judging) -> None:
    submission = judging.judge()
    grace = make_actor(judging.db, "grace", Role.CREATOR)
    rejudge_submission(judging.db, grace, submission.id, now=judging.clock())
    (entry,) = audit_log.entries(judging.db, OPERATOR, action="submission.rejudge")
    assert (entry.actor, entry.target) == ("grace", "board:double")
    assert entry.detail == {"submission": submission.id, "submissions": 1, "jobs": 1}


@pytest.mark.parametrize(("role", "error"), [(None, SignInNeeded), (Role.CREATOR, Forbidden)])
def test_others_may_not(judging, role, error) -> None:
    submission = judging.judge()
    actor = NOBODY if role is None else make_actor(judging.db, "eve", role)
    with pytest.raises(error):
        rejudge_submission(judging.db, actor, submission.id, now=judging.clock())
    with pytest.raises(error):
        rejudge_board(judging.db, actor, "double", now=judging.clock())
    assert judging.job(submission).state is JobState.DONE


def test_closed_leaderboards_do_not_exist_for_outsiders(judging) -> None:
    submission = judging.judge()
    with judging.db.write() as session:
        session.execute(update(LeaderboardRow).values(visibility="closed"))
    eve = make_actor(judging.db, "eve", Role.CREATOR)
    with pytest.raises(NotFound, match=f"no submission {submission.id}"):
        rejudge_submission(judging.db, eve, submission.id, now=judging.clock())


def test_who_watches_is_told(judging) -> None:
    submission = judging.judge()
    before = events.newest_id(judging.db)
    rejudge(judging, submission)
    judging.finish(judging.claim())
    kinds = [event.kind for event in events.since(judging.db, submission.id, before)]
    assert kinds == ["rejudging", "started", "finished", "done"]
