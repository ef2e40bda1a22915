"""The bell: what concerns a user, and what of it is new."""

from __future__ import annotations

import pytest

from builders import make_actor, make_board, make_task
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.events import announcements
from kernelcup.app.news import bell, stream
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.domain import NOBODY, OPERATOR
from kernelcup.errors import SignInNeeded


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def texts(judging: Judging, user: str) -> list[str]:
    return [each.text for each in bell.show_bell(judging.db, make_actor(judging.db, user)).items]


def test_verdicts_rejudges_lost_places_and_changed_tasks_ring_for_those_whom_they_concern(judging) -> None:
    first = judging.judge(2000)
    judging.judge(1000, "bob")
    rejudge_submission(judging.db, OPERATOR, first.id, now=judging.clock())
    judging.finish(judging.claim(), 2000)
    update_board(judging.db, OPERATOR, "double", now=judging.clock(), task=make_task(description="new"))
    assert texts(judging, "ada")[::-1] == [
        "Your #1 in double on H100: accepted.",
        "Your result in double on H100 was overtaken by bob with 1 µs.",
        "Your #1 in double on H100 was judged again: accepted.",
        "The task of double was changed.",
    ]
    assert texts(judging, "bob")[::-1] == [
        "Your #2 in double on H100: accepted.",
        "The task of double was changed.",
    ]
    assert texts(judging, "eve") == []  # she takes no part


def test_what_only_the_bell_tells_is_in_no_feed_and_no_message(judging) -> None:
    judging.judge(2000)
    everything = stream.items(judging.db, make_actor(judging.db, "ada"))
    assert [each.kind.value for each in everything] == ["first_place"]
    assert stream.addressed(judging.db, OPERATOR, 0).items == []


def test_what_was_read_is_new_no_more_and_the_cursor_never_goes_back(judging) -> None:
    judging.judge(2000)
    ada = make_actor(judging.db, "ada")
    assert bell.unread(judging.db, ada) == 1
    bell.read_bell(judging.db, ada)
    assert bell.unread(judging.db, ada) == 0
    bell.read_bell(judging.db, ada, 0)
    assert bell.unread(judging.db, ada) == 0
    judging.judge(1500)
    shown = bell.show_bell(judging.db, ada)
    assert (shown.unread, [each.id > shown.read for each in shown.items]) == (1, [True, False])


def test_a_user_does_without_the_bell(judging) -> None:
    ada = make_actor(judging.db, "ada")
    bell.set_bell(judging.db, ada, wanted=False)
    judging.judge(2000)
    assert bell.unread(judging.db, ada) is None
    assert bell.show_bell(judging.db, ada).wanted is False
    with pytest.raises(SignInNeeded):
        bell.show_bell(judging.db, NOBODY)


def test_what_an_organiser_says_rings_once_however_many_leaderboards_the_event_has(db, clock) -> None:
    for name in ("double", "other"):
        make_board(db, name=name, event="spring")
    judging = Judging(db, clock)
    for name in ("double", "other"):
        judging.judge(2000, board=name)
    ada = make_actor(db, "ada")
    bell.read_bell(db, ada)
    announcements.announce(db, OPERATOR, "spring", "The deadline moves.", now=clock())
    assert bell.unread(db, ada) == 1
    newest, judged = bell.show_bell(db, ada).items[:2]
    assert (newest.text, newest.page) == ("spring: The deadline moves.", ("e", "spring"))
    assert judged.page == ("s", "2")
