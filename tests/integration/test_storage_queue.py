from __future__ import annotations

import dataclasses
import json
import threading
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from builders import NOW, jobs_of, make_board, make_report, make_submission
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import jobs
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.results import profile_files
from kernelcup.app.results.queries import runs
from kernelcup.app.submissions.submissions import has_ended, show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission, delete_submission, list_halted, resume
from kernelcup.domain import OPERATOR, JobState, Submission
from kernelcup.engine.file_store import LARGEST_IN_ROW_BYTES
from kernelcup.errors import Forbidden, NotFound, StaleLease
from kernelcup.tables import JobRow, RunRow
from kernelcup_harness.protocol import Backend, CapturedOutput, Verdict

H100 = ["H100"]


@pytest.fixture
def board(db):
    return make_board(db, devices=["H100", "A100"])


def submit(db, **overrides):
    return make_submission(db, **({"devices": H100} | overrides))


def claim(db, clock, **overrides) -> Lease | None:
    values = {"owner": "me", "lease_s": 60.0, "devices": H100, "now": clock()}
    return lifecycle.claim_next(db, **(values | overrides))


def finish(db, clock, lease: Lease, **overrides):
    values = {"report": make_report(), "harness_hash": "f" * 64, "machine": "box", "now": clock()}
    return lifecycle.finish(db, lease, **(values | overrides))


def only_job(db, submission):
    (job,) = jobs_of(db, submission.id)
    return job


def count_runs(db) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(RunRow)).scalar_one()


def test_jobs_are_claimed_in_the_order_of_their_arrival(db, clock, board) -> None:
    submissions = [submit(db).id for _ in range(3)]
    assert [claim(db, clock).job.submission_id for _ in submissions] == submissions
    assert claim(db, clock) is None


def test_only_jobs_for_the_devices_asked_for_are_claimed(db, clock, board) -> None:
    submit(db, devices=["A100"])
    assert claim(db, clock) is None
    assert claim(db, clock, devices=["H100", "A100"]).job.device == "A100"


def test_later_submissions_can_be_left_alone(db, clock, board) -> None:
    first, second = submit(db), submit(db)
    assert claim(db, clock, up_to_submission=first.id).job.submission_id == first.id
    assert claim(db, clock, up_to_submission=first.id) is None
    assert claim(db, clock).job.submission_id == second.id


def test_a_claimed_job_runs_and_knows_its_attempt(db, clock, board) -> None:
    submission = submit(db)
    lease = claim(db, clock)
    assert lease.job == only_job(db, submission)
    assert (lease.job.state, lease.job.attempt) == (JobState.RUNNING, 1)
    assert (lease.until - NOW).total_seconds() == 60


def test_a_finished_job_has_its_run(db, clock, board) -> None:
    submission = submit(db)
    lease = claim(db, clock)
    clock.advance(5)
    run = finish(db, clock, lease)
    (view,) = show_submission(db, submission.id).jobs
    assert view.state is JobState.DONE
    assert view.counted == run
    assert run.report == make_report()
    assert (run.started_at, run.finished_at) == (NOW, clock())
    assert run.score_s == pytest.approx(1e-6)


def test_a_large_report_is_in_a_file_that_goes_with_its_submission(db, clock, board) -> None:
    submission = submit(db)
    report = make_report(stdout=CapturedOutput(text="x" * LARGEST_IN_ROW_BYTES, total_bytes=9), message="why")
    run = finish(db, clock, claim(db, clock), report=profile_files.keep(db, report))
    with db.read() as session:
        assert runs.find(session, run.id).report == report
        row = session.get_one(RunRow, run.id)
        assert len(json.dumps(row.report)) < 10_000
        assert db.files.get(row.report_file) is not None
    delete_submission(db, submission.id, by=actor_of(db, "ada"), now=clock())
    assert db.files.get(row.report_file) is None


def test_of_a_large_report_whose_file_is_gone_the_beginning_is_left(db, clock, board) -> None:
    submit(db)
    report = make_report(stdout=CapturedOutput(text="x" * LARGEST_IN_ROW_BYTES), message="why")
    run = finish(db, clock, claim(db, clock), report=report)  # it was not kept
    with db.read() as session:
        found = runs.find(session, run.id).report
    assert (found.verdict, found.message, found.trust) == (report.verdict, "why", report.trust)
    assert (found.stages, found.stdout) == ([], CapturedOutput())


def renew(db, clock, lease: Lease) -> Lease:
    """Keep a job for another minute. Raise ``StaleLease`` if that cannot be."""
    if not lifecycle.renew_all(db, [lease.token], lease_s=60, now=clock()):
        raise StaleLease("it is gone")
    return dataclasses.replace(lease, until=clock() + timedelta(seconds=60))


def test_a_job_is_finished_once(db, clock, board) -> None:
    submit(db)
    lease = claim(db, clock)
    finish(db, clock, lease)
    with pytest.raises(StaleLease):
        finish(db, clock, lease)
    assert count_runs(db) == 1


def test_who_held_an_attempt_before_it_was_adopted_does_nothing_more_with_it(db, clock, board) -> None:
    submit(db)
    old = claim(db, clock, owner="old")
    with db.write() as session:
        new = jobs.adopt(session, old, owner="new", until=clock() + timedelta(seconds=60))
    assert new.job.attempt == old.job.attempt
    with pytest.raises(StaleLease):
        renew(db, clock, old)
    with pytest.raises(StaleLease):
        finish(db, clock, old)
    finish(db, clock, new)
    assert count_runs(db) == 1


def test_time_without_a_server_is_not_charged_to_a_job_that_went_on(db, clock, board) -> None:
    submission = submit(db)
    lease = claim(db, clock, owner="old")
    clock.advance(20)
    lease = renew(db, clock, lease)
    clock.advance(300)
    with db.write() as session:
        lease = jobs.adopt(session, lease, owner="new", until=clock() + timedelta(seconds=60))
    clock.advance(10)
    finish(db, clock, lease)
    run = show_submission(db, submission.id).jobs[0].counted
    assert (run.finished_at - run.started_at).total_seconds() == 30


@pytest.mark.parametrize("act", ["renew", "finish", "hand_back", "fail_attempt"])
def test_nothing_can_be_done_with_a_lease_that_is_gone(db, clock, board, act: str) -> None:
    submit(db)
    old = claim(db, clock, owner="old")
    clock.advance(61)
    assert lifecycle.reclaim(db, now=clock()) == [old.job.id]
    new = claim(db, clock, owner="new")
    assert new.job.attempt == 2
    acts = {
        "renew": lambda: renew(db, clock, old),
        "finish": lambda: finish(db, clock, old),
        "hand_back": lambda: lifecycle.hand_back(db, old, now=clock()),
        "fail_attempt": lambda: lifecycle.fail_attempt(db, old, reason="lost", now=clock()),
    }
    with pytest.raises(StaleLease):
        acts[act]()
    finish(db, clock, new)
    assert count_runs(db) == 1


def test_a_lease_that_is_renewed_is_not_reclaimed(db, clock, board) -> None:
    submit(db)
    lease = claim(db, clock)
    clock.advance(59)
    renew(db, clock, lease)
    clock.advance(59)
    assert lifecycle.reclaim(db, now=clock()) == []


def test_a_job_of_a_dead_process_is_reclaimed_before_its_lease_ends(db, clock, board) -> None:
    submit(db)
    submit(db)
    dead, alive = claim(db, clock, owner="dead"), claim(db, clock, owner="alive")
    assert lifecycle.reclaim(db, now=clock(), gone=lambda owner: owner == "dead") == [dead.job.id]
    renew(db, clock, alive)


def test_a_job_that_is_handed_back_keeps_its_attempt(db, clock, board) -> None:
    submission = submit(db)
    lifecycle.hand_back(db, claim(db, clock), reason="stopped", now=clock())
    job = only_job(db, submission)
    assert (job.state, job.attempt, job.reason) == (JobState.QUEUED, 1, "stopped")


def test_a_job_that_runs_has_no_reason_to_wait(db, clock, board) -> None:
    submission = submit(db)
    lifecycle.hand_back(db, claim(db, clock), reason="no machine has a free slot", now=clock())
    claim(db, clock)
    job = only_job(db, submission)
    assert (job.state, job.reason) == (JobState.RUNNING, "")


def test_a_failed_launch_is_tried_again_until_it_is_given_up(db, clock, board) -> None:
    submission = submit(db)
    for attempt in (2, 3):
        assert lifecycle.fail_attempt(db, claim(db, clock), reason="lost", now=clock()) is None
        assert only_job(db, submission).attempt == attempt
    run = lifecycle.fail_attempt(db, claim(db, clock), reason="lost\0", now=clock(), backend=Backend.CPU)
    assert run.verdict is Verdict.INTERNAL_ERROR
    assert run.score_s is None
    assert (run.attempt, run.report.backend, run.report.job_id) == (3, Backend.CPU, f"{run.job_id}.3")
    assert "3 attempts: lost" in run.report.message
    job = only_job(db, submission)
    assert (job.state, job.reason) == (JobState.DONE, "lost\ufffd")


def halted(db, clock) -> Submission:
    """Return a submission whose dispatchers have died five times."""
    submission = submit(db)
    for _ in range(5):
        assert claim(db, clock) is not None
        clock.advance(61)
        lifecycle.reclaim(db, now=clock())
    return submission


def test_attempts_that_our_side_lost_do_not_count(db, clock, board) -> None:
    submission = submit(db)
    for _ in range(4):
        lifecycle.lose(db, claim(db, clock), reason="killed", now=clock())
    for _ in range(2):
        assert lifecycle.fail_attempt(db, claim(db, clock), reason="broken", now=clock()) is None
    run = lifecycle.fail_attempt(db, claim(db, clock), reason="broken", now=clock())
    assert "in 3 attempts: broken" in run.report.message
    assert (run.attempt, only_job(db, submission).lost) == (7, 4)


def test_a_job_that_our_side_lost_five_times_waits_for_an_admin(db, clock, board) -> None:
    submission = halted(db, clock)
    assert claim(db, clock) is None
    job = only_job(db, submission)
    assert (job.state, job.lost) == (JobState.HALTED, 5)
    assert "5 attempts" in job.reason
    assert not has_ended(db, submission.id)
    (row,) = list_halted(db, OPERATOR)
    assert (row.submission, row.job, row.device, row.reason) == (submission.id, job.id, "H100", job.reason)
    later = submit(db)
    assert claim(db, clock).job.submission_id == later.id


def test_a_halted_job_that_is_resumed_is_next_and_has_five_more_tries(db, clock, board) -> None:
    submission = halted(db, clock)
    submit(db)
    resume(db, OPERATOR, submission.id, now=clock())
    for _ in range(5):
        lease = claim(db, clock)
        assert lease.job.submission_id == submission.id
        lifecycle.lose(db, lease, reason="killed", now=clock())
    assert (only_job(db, submission).state, only_job(db, submission).lost) == (JobState.HALTED, 10)
    resume(db, OPERATOR, submission.id, now=clock())
    finish(db, clock, claim(db, clock))
    assert (only_job(db, submission).state, count_runs(db)) == (JobState.DONE, 1)
    with pytest.raises(NotFound):
        resume(db, OPERATOR, submission.id, now=clock())


def test_a_halted_job_can_be_cancelled(db, clock, board) -> None:
    submission = halted(db, clock)
    assert cancel_submission(db, submission.id, by=actor_of(db, "ada"), now=clock()).cancelled_jobs == 1
    assert (has_ended(db, submission.id), list_halted(db, OPERATOR)) == (True, [])


def test_only_admins_see_and_resume_halted_jobs(db, clock, board) -> None:
    submission = halted(db, clock)
    with pytest.raises(Forbidden):
        list_halted(db, actor_of(db, "ada"))
    with pytest.raises(Forbidden):
        resume(db, actor_of(db, "ada"), submission.id, now=clock())


def test_a_waiting_job_can_be_cancelled(db, clock, board) -> None:
    submission = submit(db)
    assert lifecycle.cancel(db, only_job(db, submission).id, now=clock(), reason="no need")
    job = only_job(db, submission)
    assert (job.state, job.reason) == (JobState.CANCELLED, "no need")
    assert claim(db, clock) is None


def test_the_holder_of_a_cancelled_job_notices(db, clock, board) -> None:
    submission = submit(db)
    lease = claim(db, clock)
    assert cancel_submission(db, submission.id, by=actor_of(db, "ada"), now=clock()).cancelled_jobs == 1
    with pytest.raises(StaleLease):
        renew(db, clock, lease)
    with pytest.raises(StaleLease):
        finish(db, clock, lease)
    assert only_job(db, submission).state is JobState.CANCELLED


def test_a_job_that_is_done_cannot_be_cancelled(db, clock, board) -> None:
    submission = submit(db)
    finish(db, clock, claim(db, clock))
    assert cancel_submission(db, submission.id, by=OPERATOR, now=clock()).cancelled_jobs == 0
    assert only_job(db, submission).state is JobState.DONE


def test_the_holder_of_a_deleted_job_notices(db, clock, board) -> None:
    submission = submit(db)
    lease = claim(db, clock)
    delete_submission(db, submission.id, by=OPERATOR, now=NOW)
    with pytest.raises(StaleLease):
        finish(db, clock, lease)
    assert count_runs(db) == 0


def test_the_database_itself_lets_one_run_of_a_job_count(db, clock, board) -> None:
    submit(db)
    lease = claim(db, clock)
    run = finish(db, clock, lease)
    again = {"report": run.report, "score": None, "started_at": NOW, "finished_at": NOW}
    with db.write() as session:
        session.execute(update(RunRow).values(attempt=7))
    with pytest.raises(IntegrityError), db.write() as session:
        runs.insert(session, job=lease.job, harness_hash="", machine="", **again)


def test_threads_that_claim_at_once_never_get_the_same_job(db, clock, board) -> None:
    for _ in range(15):
        submit(db, devices=["H100", "A100"])
    claimed: list[int] = []
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(name: str) -> None:
        try:
            start.wait()
            while lease := claim(db, clock, owner=name, devices=["H100", "A100"]):
                finish(db, clock, lease)
                claimed.append(lease.job.id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[f"worker-{n}"]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(claimed) == 30
    assert max(Counter(claimed).values()) == 1
    assert count_runs(db) == 30
    with db.read() as session:
        assert set(session.scalars(select(JobRow.state))) == {JobState.DONE.value}
