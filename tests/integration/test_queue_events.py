"""What watchers are told, in order, and what happens at once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from builders import make_board, make_report
from hand_judging import Judging
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import reviews
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.submissions import events
from kernelcup.app.submissions.queries import submissions as stored
from kernelcup.app.submissions.submissions import get_code
from kernelcup.app.submissions.withdrawal import cancel_submission, delete_submission
from kernelcup.domain import OPERATOR, JobState
from kernelcup.errors import NotFound, StaleLease
from kernelcup.tables import BestRow, EventRow

ROUNDS = pytest.mark.parametrize(
    "round_", [0, *(pytest.param(n, marks=pytest.mark.jobs) for n in range(1, 5))]
)
"""What happens at once ends one way or the other: several rounds see both."""


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, devices=["H100", "A100"])
    return Judging(db, clock)


def kinds(judging: Judging, submission, after: int = 0) -> list[str]:
    return [
        event.kind for event in events.since(judging.db, submission.id, after) if event.kind != "accepted"
    ]


def at_once(*works: Callable[[], object]) -> list[BaseException | None]:
    """Do several things at the same time, and return how each ended."""
    start = threading.Barrier(len(works))
    errors: list[BaseException | None] = [None] * len(works)

    def do(index: int) -> None:
        try:
            start.wait()
            works[index]()
        except BaseException as error:
            errors[index] = error

    threads = [threading.Thread(target=do, args=[index]) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_a_submission_tells_its_way(judging) -> None:
    submission = judging.submit()
    lifecycle.fail_attempt(judging.db, judging.claim(), reason="lost", now=judging.clock())
    lifecycle.hand_back(judging.db, judging.claim(), reason="stopped", now=judging.clock())
    judging.finish(judging.claim())
    assert kinds(judging, submission) == [
        *("started", "queued"),
        *("started", "queued"),
        *("started", "finished", "done"),
    ]
    found = {event.kind: event for event in events.since(judging.db, submission.id, 0)}
    assert found["finished"].data == {"verdict": "accepted", "score_s": pytest.approx(1e-6), "counts": True}
    assert found["queued"].data == {"reason": "stopped"}
    assert found["finished"].job_id == judging.job(submission).id
    assert found["finished"].at == judging.clock()
    assert found["done"].job_id is None


def test_done_is_told_when_the_last_job_has_ended(judging) -> None:
    submission = judging.submit(devices=["H100", "A100"])
    judging.finish(judging.claim("A100"))
    assert "done" not in kinds(judging, submission)
    assert cancel_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock()).cancelled_jobs == 1
    assert kinds(judging, submission)[-2:] == ["cancelled", "done"]


def test_cancelling_all_jobs_is_done_once(judging) -> None:
    submission = judging.submit(devices=["H100", "A100"])
    cancel_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock())
    assert cancel_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock()).cancelled_jobs == 0
    assert kinds(judging, submission) == ["cancelled", "cancelled", "done"]


def test_who_comes_back_is_told_only_what_is_new(judging) -> None:
    submission = judging.judge()
    found = events.since(judging.db, submission.id, 0)
    assert events.since(judging.db, submission.id, found[-2].id) == found[-1:]
    assert events.since(judging.db, submission.id, 0, limit=2) == found[:2]
    assert events.newest_id(judging.db) == found[-1].id


def test_all_that_happens_is_told_in_order(judging) -> None:
    judging.judge()
    judging.judge(user="bob")
    found = events.changes(judging.db, 0)
    assert [event.id for event in found] == sorted(event.id for event in found)
    assert len({event.submission_id for event in found}) == 2
    assert events.changes(judging.db, found[-1].id) == []


def test_two_jobs_of_a_submission_that_end_at_once_are_done_once(judging) -> None:
    for _ in range(3):
        submission = judging.submit(devices=["H100", "A100"])
        leases = [judging.claim("H100"), judging.claim("A100")]
        assert at_once(*(lambda lease=lease: judging.finish(lease) for lease in leases)) == [None, None]
        assert kinds(judging, submission)[-1] == "done"
        assert kinds(judging, submission).count("done") == 1


def test_results_of_one_user_at_once_leave_the_best_standing(judging) -> None:
    submissions = [judging.submit() for _ in range(4)]
    for time_ns in (900, 1000):
        leases = [judging.claim() for _ in submissions]
        works = [
            lambda lease=lease, own_ns=time_ns + extra: judging.finish(lease, own_ns)
            for lease, extra in zip(leases, itertools.count(), strict=False)
        ]
        assert at_once(*works) == [None] * 4
        assert judging.ranking() == [("ada", time_ns)]
        for submission in submissions:
            rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())


@ROUNDS
def test_cancelling_at_the_end_of_a_job_is_one_or_the_other(judging, round_: int) -> None:
    submission = judging.submit(devices=["H100", "A100"])
    lease = judging.claim()

    def cancel() -> None:
        cancel_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock())

    finished, cancelled = at_once(lambda: judging.finish(lease), cancel)
    assert cancelled is None
    job = judging.job(submission)
    if finished is None:
        assert (job.state, judging.run(submission).verdict.value) == (JobState.DONE, "accepted")
    else:
        assert isinstance(finished, StaleLease)
        assert (job.state, judging.run(submission)) == (JobState.CANCELLED, None)
    assert kinds(judging, submission).count("done") == 1


@ROUNDS
def test_quarantine_at_the_end_of_a_rejudge_keeps_the_result_out(judging, round_: int) -> None:
    judging.judge(2000)
    submission = judging.judge(1000)
    rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    lease = judging.claim()
    job_id = judging.job(submission).id

    def quarantine() -> None:
        reviews.quarantine(judging.db, OPERATOR, job_id, reason="odd", evidence={}, now=judging.clock())

    finished, quarantined = at_once(lambda: judging.finish(lease, 500), quarantine)
    assert quarantined is None
    assert finished is None or isinstance(finished, StaleLease)
    assert judging.job(submission).state is JobState.QUARANTINED
    assert judging.ranking() == [("ada", 2000)]
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    assert review.run_id == judging.run(submission).id


def test_code_of_a_submission_that_is_deleted_while_it_is_looked_up_is_not_found(
    judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = judging.submit()
    find = stored.find_code

    def after_deletion(session: Session, submission_id: int) -> str | None:
        delete_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock())
        return find(session, submission_id)

    if judging.db.engine.dialect.name == "sqlite":
        # There a read sees the database as it was when the read began.
        monkeypatch.setattr(stored, "find_code", lambda _session, _submission_id: None)
    else:
        monkeypatch.setattr(stored, "find_code", after_deletion)
    with pytest.raises(NotFound, match=f"no submission {submission.id}"):
        get_code(judging.db, submission.id)


@ROUNDS
def test_a_submission_that_is_deleted_at_the_end_of_its_job_leaves_nothing(judging, round_: int) -> None:
    submission = judging.submit(devices=["H100", "A100"])
    lease = judging.claim()
    finished, deleted = at_once(
        lambda: judging.finish(lease, report=make_report()),
        lambda: delete_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock()),
    )
    assert deleted is None
    assert finished is None or isinstance(finished, StaleLease)
    with judging.db.read() as session:
        assert session.scalars(select(BestRow)).all() == []
        assert session.scalars(select(EventRow)).all() == []
