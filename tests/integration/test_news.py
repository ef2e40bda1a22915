"""What is news, when it is noted, and who sees it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import NOW, make_actor, make_board, make_case, make_report, make_stage
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.courses import membership
from kernelcup.app.news import newsroom, stream
from kernelcup.app.people import accounts
from kernelcup.app.results import news as noting
from kernelcup.app.results import reviews
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.results.standings import standings
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, Actor, NewsKind, Role, Scope, Visibility
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import Finding, Timing


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def told(judging: Judging, viewer=NOBODY, **options) -> list[tuple[str, str, str]]:
    """Return kind, user and who held the place before of what somebody sees."""
    return [(item.kind.value, item.user, item.before) for item in stream.items(judging.db, viewer, **options)]


def texts(judging: Judging, viewer=NOBODY) -> list[str]:
    return [item.text for item in stream.items(judging.db, viewer)]


def test_the_first_result_of_a_ranking_takes_the_first_place(judging) -> None:
    submission = judging.judge(2000)
    (item,) = stream.items(judging.db, NOBODY)
    assert (item.kind, item.user, item.before) == (NewsKind.FIRST_PLACE, "ada", "")
    assert (item.leaderboard, item.device, item.submission, item.at) == (
        "double",
        "H100",
        submission.id,
        judging.clock(),
    )
    assert item.text == "ada takes the first place of double on H100 with 2 µs."


def test_a_faster_result_takes_the_first_place_and_its_loser_alone_is_told_so(judging) -> None:
    judging.judge(2000)
    judging.judge(1000, "bob")
    first_places = [("first_place", "ada", ""), ("first_place", "bob", "ada")]
    assert told(judging) == first_places
    assert told(judging, make_actor(judging.db, "bob")) == first_places
    assert texts(judging, make_actor(judging.db, "ada"))[-1] == (
        "Your result in double on H100 was overtaken by bob with 1 µs."
    )


def test_a_better_time_that_passes_nobody_is_no_news(judging) -> None:
    judging.judge(2000)
    judging.judge(1000)
    judging.judge(5000, "bob")
    judging.judge(4000, "bob")
    judging.judge(6000, "bob")
    assert told(judging) == [("first_place", "ada", "")]


def test_owners_beyond_the_top_are_not_told(judging, monkeypatch) -> None:
    monkeypatch.setattr(noting, "TOP", 3)
    for number in range(5):
        judging.judge(10_000 + 1000 * number, f"user{number}")
    judging.judge(1000, "eve")
    overtaken = [
        name
        for name in (f"user{n}" for n in range(5))
        if told(judging, make_actor(judging.db, name))[-1][0] == "overtaken"
    ]
    assert overtaken == [f"user{n}" for n in range(3)]


def test_who_is_first_and_cannot_be_told_apart_shares_the_place(judging) -> None:
    for user, more in (("ada", 1.05), ("bob", 1.0)):
        wide = Timing(
            samples_ns=[more * each for each in (700.0, 800.0, 900.0, 1000.0, 1100.0, 1200.0, 1290.0)]
        )
        judging.submit(user)
        judging.finish(judging.claim(), report=make_report(stages=[make_stage([make_case(timing=wide)])]))
    assert [place.tied for place in standings(judging.db, "double", "H100")] == [True, True]
    assert texts(judging)[-1].startswith("bob shares the first place of double on H100")
    assert "overtaken" not in [kind for kind, *_ in told(judging, make_actor(judging.db, "ada"))]


def test_another_judgement_of_a_submission_is_no_news(judging) -> None:
    submission = judging.judge(2000)
    judging.judge(1500, "bob")
    before = told(judging)
    rejudge_submission(judging.db, OPERATOR, submission.id, now=judging.clock())
    judging.finish(judging.claim(), 1000)
    assert judging.ranking()[0] == ("ada", 1000)
    assert told(judging) == before


def test_a_result_that_waits_for_a_review_is_no_news_until_it_is_released(judging) -> None:
    judging.judge(2000)
    fast = judging.judge(1000, "bob")
    review = reviews.quarantine(
        judging.db, OPERATOR, judging.job(fast).id, reason="too good", now=judging.clock()
    )
    assert told(judging) == [("first_place", "ada", "")]
    reviews.decide(
        judging.db, OPERATOR, review.id, decision="rejected", note="looked at", now=judging.clock()
    )
    assert told(judging) == [("first_place", "ada", "")]


def test_a_result_that_was_held_from_the_start_is_news_when_it_is_released(judging) -> None:

    judging.judge(2000)
    judging.submit("bob")
    found = [Finding(code="below_floor", text="too fast", quarantines=True)]
    judging.finish(judging.claim(), report=make_report([1000.0], quarantine=found))
    assert told(judging) == [("first_place", "ada", "")]
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    judging.clock.advance(60)
    reviews.decide(
        judging.db, OPERATOR, review.id, decision="released", note="looked at", now=judging.clock()
    )
    assert told(judging)[-1] == ("first_place", "bob", "ada")
    assert stream.items(judging.db, NOBODY)[-1].at == judging.clock()


def test_news_of_a_deleted_submission_go_with_it(judging) -> None:
    judging.judge(2000)
    bobs = judging.judge(1000, "bob")
    delete_submission(judging.db, bobs.id, by=make_actor(judging.db, "bob"), now=judging.clock())
    assert told(judging, make_actor(judging.db, "ada")) == [("first_place", "ada", "")]


def test_nothing_is_told_of_a_frozen_board_until_it_is_unveiled(judging) -> None:
    judging.judge(2000)
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    judging.judge(1000, "bob")
    judging.judge(500, "eve")
    for viewer in (NOBODY, OPERATOR, make_actor(judging.db, "ada"), make_actor(judging.db, "eve")):
        assert told(judging, viewer) == [("first_place", "ada", "")]
    judging.clock.advance(1)
    unveil(judging.db, OPERATOR, "double", now=judging.clock())
    assert told(judging) == [
        ("first_place", "ada", ""),
        ("unveiled", "", ""),
        ("first_place", "eve", "ada"),
    ]
    assert told(judging, make_actor(judging.db, "ada"))[-1] == ("overtaken", "eve", "ada")


def test_a_freeze_that_is_taken_away_by_a_change_of_settings_unveils_as_well(judging) -> None:
    judging.judge(2000)
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    judging.judge(1000, "bob")
    update_board(judging.db, OPERATOR, "double", changes=BoardChanges(freeze_at=None), now=judging.clock())
    assert told(judging)[-1] == ("first_place", "bob", "ada")


def test_a_freeze_that_never_came_unveils_nothing(judging) -> None:
    judging.judge(2000)
    freeze(judging.db, OPERATOR, "double", judging.clock() + timedelta(days=1), now=judging.clock())
    unveil(judging.db, OPERATOR, "double", now=judging.clock())
    assert told(judging) == [("first_place", "ada", "")]


def test_a_closed_board_has_news_for_those_who_see_it_only(db, clock) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    judging = Judging(db, clock)
    make_actor(db, "ada")
    membership.add_member(db, OPERATOR, "double", "ada", now=NOW)
    judging.judge(2000)
    eve = make_actor(db, "eve", role=Role.CREATOR)
    for stranger in (NOBODY, eve):
        assert told(judging, stranger) == []
        with pytest.raises(NotFound):
            stream.items(db, stranger, board="double")
    assert told(judging, make_actor(db, "ada")) == [("first_place", "ada", "")]


def test_pseudonyms_are_kept(db, clock) -> None:
    make_board(db, pseudonymous=True)
    judging = Judging(db, clock)
    make_actor(db, "ada")
    membership.add_member(db, OPERATOR, "double", "ada", pseudonym="fox", now=NOW)
    judging.judge(2000)
    judging.judge(1000, "bob")
    assert told(judging) == [("first_place", "fox", ""), ("first_place", "participant 2", "fox")]
    assert all("ada" not in text and "bob" not in text for text in texts(judging))


def test_an_opening_a_deadline_and_the_end_are_noted_when_they_come_and_once(db, clock) -> None:
    opens, deadline = NOW + timedelta(hours=1), NOW + timedelta(days=3)
    make_board(db, opens_at=opens, deadline=deadline)
    judging = Judging(db, clock)

    def noted_at(moment) -> list[str]:
        clock.now = moment
        before = stream.addressed(db, OPERATOR).newest
        newsroom.note_due(db, clock())
        newsroom.note_due(db, clock())
        return [item.text for item in stream.items(db, NOBODY, after_id=before)]

    second = timedelta(seconds=1)
    assert noted_at(opens - second) == []
    assert noted_at(opens) == ["double is open until 2026-06-04 12:00 UTC."]
    assert noted_at(deadline - timedelta(days=1) - second) == []
    assert noted_at(deadline - timedelta(days=1)) == ["double closes in 24 hours, at 2026-06-04 12:00 UTC."]
    judging.submit()
    assert noted_at(deadline) == []
    judging.finish(judging.claim())
    assert noted_at(deadline + second) == ["double has ended: the final standings are published."]


def test_final_standings_wait_for_the_end_of_a_freeze(db, clock) -> None:
    deadline = NOW + timedelta(days=1)
    make_board(db, deadline=deadline, freeze_at=deadline - timedelta(hours=1))
    clock.now = deadline + timedelta(hours=1)
    newsroom.note_due(db, clock())
    assert [item.kind for item in stream.items(db, NOBODY)] == []
    unveil(db, OPERATOR, "double", now=clock())
    newsroom.note_due(db, clock())
    assert [item.kind.value for item in stream.items(db, NOBODY)] == ["unveiled", "final"]


def test_news_come_in_pages_after_the_last_one_that_was_seen(judging) -> None:
    for number, time_ns in enumerate((5000, 4000, 3000, 2000)):
        judging.judge(time_ns, f"user{number}")
    newest = stream.items(judging.db, NOBODY, limit=2)
    assert [item.user for item in newest] == ["user2", "user3"]
    rest = stream.items(judging.db, NOBODY, after_id=0, limit=3)
    assert [item.user for item in rest] == ["user0", "user1", "user2"]


def test_who_wants_no_direct_messages_is_not_addressed_and_not_told_later(judging) -> None:
    ada = accounts.sign_in(judging.db, provider="discord", subject="7", login="ada", now=NOW)
    judging.judge(2000)
    reader = Actor(user_id=ada, name="ada", role=Role.PARTICIPANT, scopes=frozenset(Scope))

    def addressed(after_id: int = 0) -> stream.AddressedPage:
        return stream.addressed(judging.db, OPERATOR, provider="discord", after_id=after_id)

    accounts.set_direct_messages(judging.db, reader, False)
    judging.judge(1000, "bob")
    assert addressed().items == []
    assert told(judging, reader)[-1] == ("overtaken", "bob", "ada")
    seen = addressed().newest
    assert addressed(seen).items == []
    accounts.set_direct_messages(judging.db, reader, True)
    assert addressed(seen).items == []
    judging.judge(500)
    judging.judge(100, "eve")
    assert [each.user for each in addressed(seen).items] == ["eve"]
