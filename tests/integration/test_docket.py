"""The docket and the status, on both kinds of database."""

from __future__ import annotations

import pytest

from builders import make_actor, make_board, make_device
from hand_judging import Judging, decide, flagged
from kernelcup.app.results import docket, reviews
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.app.rules import pauses
from kernelcup.app.status import read_status
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, Role, Visibility
from kernelcup.errors import Forbidden, NotFound


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def put_aside(judging: Judging, user: str, decision: str | None = None):
    submission = judging.judge(1000, user, content=f"# {user}\ndef custom_kernel(data): ...".encode())
    review = reviews.quarantine(
        judging.db, OPERATOR, judging.job(submission).id, reason="too good", now=judging.clock()
    )
    if decision is not None:
        reviews.decide(
            judging.db, OPERATOR, review.id, decision=decision, note="looked at", now=judging.clock()
        )
    return submission


def test_deleted_results_stand_among_the_others(judging) -> None:
    put_aside(judging, "ada", "released")
    gone = put_aside(judging, "bob", "rejected")
    put_aside(judging, "eve")
    delete_submission(judging.db, gone.id, by=OPERATOR, now=judging.clock())
    found = docket.entries(judging.db, NOBODY)
    assert [(each.id, each.user, each.decision, each.deleted_at) for each in found] == [
        (3, "", None, None),
        (2, "", "rejected", judging.clock()),
        (1, "ada", "released", None),
    ]
    assert found[1].submission == gone.id
    assert [each.reason for each in found] == ["", "too good", "too good"]
    assert [each.id for each in docket.entries(judging.db, NOBODY, before_id=3, limit=1)] == [2]


def test_neither_notes_nor_figures_of_hidden_cases_are_in_it(judging) -> None:
    _, review = flagged(judging, hidden=True)
    decide(judging, review, "rejected")
    (entry,) = docket.entries(judging.db, NOBODY)
    assert entry.cases == ()
    assert not any(secret in repr(entry) for secret in ("77.7", "private words", "510", "900"))


def test_closed_boards_are_in_it_for_those_who_see_them(db, clock) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    judging = Judging(db, clock)
    _, review = flagged(judging)
    decide(judging, review, "rejected")
    for stranger in (NOBODY, make_actor(db, "eve", role=Role.CREATOR)):
        assert docket.entries(db, stranger) == []
        with pytest.raises(NotFound):
            docket.entries(db, stranger, board="double")
    (entry,) = docket.entries(db, make_actor(db, "root", role=Role.ADMIN), board="double")
    assert entry.user == "bob"


def test_pseudonyms_are_kept(db, clock) -> None:
    make_board(db, pseudonymous=True)
    submission, review = flagged(Judging(db, clock))
    decide(Judging(db, clock), review, "rejected")
    (entry,) = docket.entries(db, NOBODY)
    assert entry.user == f"participant {submission.id}"


def test_a_frozen_board_shows_no_decision_and_no_later_result_to_anyone(judging) -> None:
    _, review = flagged(judging)
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    before = docket.entries(judging.db, NOBODY)
    judging.clock.advance(1)
    decide(judging, review, "rejected")
    put_aside(judging, "eve")
    assert docket.entries(judging.db, NOBODY) == docket.entries(judging.db, OPERATOR) == before
    unveil(judging.db, OPERATOR, "double", now=judging.clock())
    assert [each.decision for each in docket.entries(judging.db, NOBODY)] == [None, "rejected"]


def test_a_deletion_during_a_freeze_shows_when_it_is_over(judging) -> None:
    submission = put_aside(judging, "ada", "rejected")
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    before = docket.entries(judging.db, NOBODY)
    delete_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock())
    (entry,) = docket.entries(judging.db, NOBODY)
    assert (entry.decision, entry.user, entry.deleted_at) == ("rejected", "ada", None)
    assert before[0].user == "ada"


def test_an_author_cannot_delete_what_is_under_review(judging) -> None:
    submission = put_aside(judging, "ada")
    with pytest.raises(Forbidden):
        delete_submission(judging.db, submission.id, by=make_actor(judging.db, "ada"), now=judging.clock())


def test_the_status_says_nothing_of_closed_boards(db, clock) -> None:
    make_board(db, name="secret", visibility=Visibility.CLOSED)
    Judging(db, clock).submit(board="secret")
    pauses.pause(db, OPERATOR, scope="leaderboard", key="secret", reason="class is over", now=clock())
    told = repr(read_status(db, [make_device()], clock()))
    assert "secret" not in told
    assert "class is over" not in told
