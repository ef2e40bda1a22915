"""What a second opinion finds is stored with a result, and never decides about a verdict."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from builders import NOW, SUBMISSION, look_at, make_board, make_device, make_report, make_submission
from fakes import FakeLauncher, find_words
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.submissions.submissions import list_views, screening_of, show_submission
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR, Filters, JobState
from kernelcup.errors import DeadlinePassed, NotFound
from kernelcup.screen.findings import Remark, Screening
from kernelcup.tables import ScreeningFindingRow, ScreeningRow

CHEAT = "import sys\nsys._getframe(1)\nexec('x')\n" + SUBMISSION
STREAM = b"import torch\n\n\ndef custom_kernel(data):\n    torch.cuda.Stream()\n    return data * 2\n"


def count(db, table) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


def run(db, clock, **options) -> None:
    """Judge all that waits."""
    dispatcher = Dispatcher(
        db,
        devices=[make_device()],
        launchers={"fake": FakeLauncher()},
        clock=clock,
        tick_s=0.005,
        **options,
    )
    dispatcher.run_until_idle()


def finish(db, screening: Screening | None = None) -> JobState:
    """Judge the next job by hand and return what became of it."""
    lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    more = {} if screening is None else {"screening": screening}
    lifecycle.finish(db, lease, report=make_report(), harness_hash="", machine="box", now=NOW, **more)
    return show_submission(db, lease.job.submission_id).jobs[0].state


def test_a_submission_is_screened_when_it_is_judged(db, clock) -> None:
    make_board(db)
    submission = make_submission(db, content=CHEAT.encode())
    assert screening_of(db, submission.id) is None
    run(db, clock, look=find_words)
    screening = screening_of(db, submission.id)
    assert screening is not None
    assert screening.tags == ("dynamic_execution", "frame_walk")


def test_without_a_second_opinion_nothing_is_stored(db, clock) -> None:
    make_board(db)
    submission = make_submission(db, content=CHEAT.encode())
    run(db, clock)
    assert screening_of(db, submission.id) is None
    assert show_submission(db, submission.id).jobs[0].state is JobState.DONE


def test_a_submission_is_looked_at_once(db, clock) -> None:
    seen: list[str] = []

    def look(code: str) -> Screening:
        seen.append(code)
        return Screening(rules_version="test")

    make_board(db, devices=["H100"])
    submission = make_submission(db)
    look_at(db, submission)
    run(db, clock, look=look)
    make_submission(db)
    run(db, clock, look=look)
    assert seen == [SUBMISSION]


def test_what_was_not_looked_at_has_a_tag_or_no_answer_does_not_rank(db) -> None:
    make_board(db, review_tags=("streams",))
    tagged = [
        Remark(tag=tag, line=0, column=0, source="", explanation="") for tag in ("streams", "no_answer")
    ]
    looks = [Screening(rules_version="1", findings=found) for found in ((tagged[0],), (tagged[1],), ())]
    states = []
    for look in (None, *looks):
        make_submission(db)
        states.append(finish(db, look))
    assert states == [JobState.QUARANTINED] * 3 + [JobState.DONE]


def test_a_dispatcher_holds_back_what_has_a_tag(db, clock) -> None:
    make_board(db, review_tags=("streams",))
    held, fine = make_submission(db, content=STREAM), make_submission(db)
    run(db, clock, look=find_words)
    states = [show_submission(db, each.id).jobs[0].state for each in (held, fine)]
    assert states == [JobState.QUARANTINED, JobState.DONE]


def test_two_jobs_of_a_submission_store_one_screening(db) -> None:
    make_board(db)
    submission = make_submission(db)
    first = look_at(db, submission)
    look_at(db, submission, lambda _code: dataclasses.replace(first, rules_version="other"))
    assert screening_of(db, submission.id) == first


def test_tags_change_nothing_about_the_submission(db, clock) -> None:
    make_board(db)
    tagged, plain = make_submission(db, content=CHEAT.encode()), make_submission(db)
    run(db, clock, look=find_words)
    states = [[view.state for view in show_submission(db, each.id).jobs] for each in (tagged, plain)]
    assert states == [[JobState.DONE]] * 2


def test_a_submission_without_findings_is_screened_all_the_same(db) -> None:
    make_board(db)
    submission = make_submission(db)
    look_at(db, submission)
    screening = screening_of(db, submission.id)
    assert screening is not None
    assert (screening.findings, screening.left_out, screening.rules_version) == ((), 0, "words 1")


def test_a_submission_that_is_not_there_has_no_screening_either(db) -> None:
    with pytest.raises(NotFound):
        screening_of(db, 1)


def test_with_a_submission_its_findings_are_deleted(db) -> None:
    make_board(db)
    submission, other = (make_submission(db, content=CHEAT.encode()) for _ in range(2))
    for each in (submission, other):
        look_at(db, each)
    delete_submission(db, submission.id, by=OPERATOR, now=NOW)
    assert (count(db, ScreeningRow), count(db, ScreeningFindingRow)) == (1, 2)
    assert screening_of(db, other.id) is not None


def test_what_it_says_is_stored_whatever_it_says(db) -> None:
    make_board(db)
    submission = make_submission(db)
    odd = Remark(tag="odd:text", line=0, column=0, source="a\0b", explanation="half \ud800")
    look_at(db, submission, lambda _code: Screening(rules_version="odd 2.0", findings=(odd,), left_out=7))
    screening = screening_of(db, submission.id)
    assert screening is not None
    assert (screening.rules_version, screening.left_out, screening.tags) == ("odd 2.0", 7, ("odd:text",))
    assert screening.findings[-1].source == "a\ufffdb"
    assert screening.findings[-1].explanation == "half \ufffd"


def test_submissions_can_be_listed_by_tag(db) -> None:
    make_board(db)
    plain, tagged = make_submission(db), make_submission(db, content=CHEAT.encode())
    for each in (plain, tagged):
        look_at(db, each)
    assert [each.id for each in list_views(db, filters=Filters(tag="frame_walk"))] == [tagged.id]
    assert list_views(db, filters=Filters(tag="threads")) == []
    assert list_views(db, filters=Filters(tag="frame_walk"), user="nobody") == []


def test_a_file_that_is_refused_is_not_looked_at(db) -> None:
    make_board(db, deadline=NOW + timedelta(seconds=1))
    with pytest.raises(DeadlinePassed):
        make_submission(db, now=NOW + timedelta(seconds=2))
    assert count(db, ScreeningRow) == 0
