"""The dates of an event hold at every door: for its leaderboards, its qualifier and its registration."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from builders import NOW, make_actor, make_board
from hand_judging import Judging
from kernelcup.app.boards import boards, managing
from kernelcup.app.boards.late_exceptions import grant_late, revoke_late
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.events import events
from kernelcup.app.events.points import points
from kernelcup.app.events.registration import register
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.news.newsroom import FINAL_WITHIN, note_due
from kernelcup.app.news.stream import items
from kernelcup.app.results import finals
from kernelcup.domain import NOBODY, OPERATOR, AfterDeadline, NewsKind, Role, Visibility
from kernelcup.errors import Conflict, DeadlinePassed, InvalidValue, LeaderboardOpen, NotOpenYet
from kernelcup_harness.protocol import Mode

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def grace(db):
    return make_actor(db, "grace", Role.CREATOR)


@pytest.fixture
def judging(db, clock):
    return Judging(db, clock)


def cup(db, grace, *names: str, **dates: datetime) -> None:
    """Make an event with these dates and leaderboards, which have none of their own."""
    events.create_event(db, grace, "cup", EventChanges(**dates), now=NOW)
    for name in names:
        make_board(db, name=name, creator=grace)
        events.add_board(db, grace, "cup", name, now=NOW)


def change(db, grace, name: str, now: datetime = NOW, **settings: object):
    return managing.change(db, grace, name, BoardChanges(**settings), now=now, known_devices=())


def sums(db, clock) -> dict[str, float]:
    return {row.user: row.total for row in points(db, NOBODY, "cup", now=clock()).rows}


def test_a_ranked_submission_after_the_events_end_is_refused_and_gives_no_points(
    db, clock, grace, judging
) -> None:
    cup(db, grace, "one", ends_at=NOW + HOUR)
    judging.judge(1000, "ada", board="one")
    clock.advance(HOUR.total_seconds() * 3)
    with pytest.raises(DeadlinePassed):
        judging.submit("bob", board="one")
    judging.submit("bob", board="one", mode=Mode.TEST)
    assert sums(db, clock) == {"ada": 25.0}


def test_nobody_but_a_manager_submits_before_the_event_opens(db, clock, grace, judging) -> None:
    cup(db, grace, "one", opens_at=NOW + HOUR)
    for mode in (Mode.LEADERBOARD, Mode.TEST):
        with pytest.raises(NotOpenYet):
            judging.submit("ada", board="one", mode=mode)
    judging.submit(grace, board="one", mode=Mode.TEST)
    clock.advance(HOUR.total_seconds())
    judging.judge(1000, "ada", board="one")
    assert sums(db, clock) == {"ada": 25.0}


def test_the_qualifier_ends_for_all_but_the_final(db, clock, grace, judging) -> None:
    cup(db, grace, "one", "final", "late", qualifier_at=NOW + HOUR, ends_at=NOW + DAY)
    change(db, grace, "final", visibility=Visibility.CLOSED)
    change(db, grace, "late", opens_at=NOW + HOUR)
    ends = {name: boards.get_board(db, name).deadline for name in ("one", "final", "late")}
    assert ends == {"one": NOW + HOUR, "final": NOW + DAY, "late": NOW + DAY}
    clock.advance(HOUR.total_seconds() + 1)
    with pytest.raises(DeadlinePassed):
        judging.submit("ada", board="one")
    judging.judge(1000, "ada", board="late")


def test_a_final_stays_one_when_it_is_made_public(db, clock, grace, judging) -> None:
    cup(db, grace, "one", "final", qualifier_at=NOW + HOUR, ends_at=NOW + DAY)
    change(db, grace, "final", visibility=Visibility.CLOSED)
    judging.judge(1000, "ada", board="one")
    from kernelcup.app.events.finalists import advance

    advance(db, grace, "cup", "final", first=1, now=clock())
    assert change(db, grace, "final", visibility=Visibility.PUBLIC).deadline == NOW + DAY


def test_a_late_exception_extends_the_events_end_for_one(db, clock, grace, judging) -> None:
    cup(db, grace, "one", ends_at=NOW + HOUR)
    make_actor(db, "ada")
    grant_late(db, grace, "one", "ada", NOW + DAY, now=NOW)
    with pytest.raises(InvalidValue, match="open until"):
        grant_late(db, grace, "one", "ada", NOW + HOUR, now=NOW)
    clock.advance(HOUR.total_seconds() + 1)
    judging.judge(1000, "ada", board="one")
    assert sums(db, clock) == {"ada": 25.0}


def test_registration_ends_with_the_event(db, grace, client) -> None:
    dates = {"register_by": NOW + DAY, "ends_at": NOW + HOUR, "text": "x", "registration": True}
    cup(db, grace, **dates)
    assert client.get("/api/v1/events/cup").json()["register_by"] == (NOW + HOUR).isoformat().replace(
        "+00:00", "Z"
    )
    register(db, make_actor(db, "ada"), "cup", now=NOW + HOUR)
    with pytest.raises(DeadlinePassed):
        register(db, make_actor(db, "bob"), "cup", now=NOW + HOUR + timedelta(seconds=1))
    events.update_event(db, grace, "cup", EventChanges(ends_at=NOW + 9 * DAY), now=NOW)
    register(db, make_actor(db, "bob"), "cup", now=NOW + DAY)  # its own date is in force again


def test_a_leaderboard_that_joins_says_that_the_event_ends_it(db, grace) -> None:
    events.create_event(db, grace, "cup", EventChanges(ends_at=NOW + DAY), now=NOW)
    make_board(db, name="one", creator=grace, deadline=NOW + 9 * DAY)
    seen = managing.preview(db, grace, "one", None, BoardChanges(event="cup"), now=NOW, known_devices=())
    assert seen.settings["deadline"] == (NOW + 9 * DAY, NOW + DAY)
    assert change(db, grace, "one", event="cup").deadline == NOW + DAY
    events.update_event(db, grace, "cup", EventChanges(ends_at=NOW + 2 * DAY), now=NOW)
    assert (
        change(db, grace, "one", deadline=NOW + 2 * DAY, duel=True).deadline == NOW + 2 * DAY
    )  # as a form does
    assert change(db, grace, "one", event="").deadline == NOW + 9 * DAY


def test_a_date_that_the_event_would_not_let_hold_is_refused(db, grace) -> None:
    cup(db, grace, "one", opens_at=NOW + HOUR, ends_at=NOW + DAY)
    for settings in ({"deadline": NOW + 2 * DAY}, {"opens_at": NOW}):
        with pytest.raises(InvalidValue, match="cup"):
            change(db, grace, "one", **settings)
        with pytest.raises(InvalidValue, match="cup"):
            make_board(db, name="two", creator=grace, event="cup", **settings)
    assert change(db, grace, "one", deadline=NOW + 2 * HOUR).deadline == NOW + 2 * HOUR


def test_results_from_outside_of_its_dates_do_not_come_into_an_event(db, clock, grace, judging) -> None:
    make_board(db, name="one", creator=grace)
    judging.judge(1000, "ada", board="one")
    events.create_event(db, grace, "cup", EventChanges(opens_at=NOW + HOUR), now=NOW)
    with pytest.raises(Conflict, match="1 ranked submission"):
        events.add_board(db, grace, "cup", "one", now=NOW)
    with pytest.raises(Conflict, match="1 ranked submission"):
        change(db, grace, "one", event="cup")
    events.update_event(db, grace, "cup", EventChanges(opens_at=NOW - HOUR), now=NOW)
    events.add_board(db, grace, "cup", "one", now=NOW)
    for dates in ({"opens_at": NOW + HOUR}, {"opens_at": None, "ends_at": NOW - HOUR}):
        with pytest.raises(Conflict, match="1 ranked submission"):
            events.update_event(db, grace, "cup", EventChanges(**dates), now=NOW)


def test_results_that_an_event_has_block_no_other_change_of_its_dates(db, clock, grace, judging) -> None:
    cup(db, grace, "one", ends_at=NOW + HOUR)
    make_actor(db, "ada")
    grant_late(db, grace, "one", "ada", NOW + DAY, now=NOW)
    clock.advance(HOUR.total_seconds() + 1)
    judging.judge(1000, "ada", board="one")
    revoke_late(db, grace, "one", "ada", now=clock())
    events.update_event(db, grace, "cup", EventChanges(ends_at=NOW + HOUR / 2, title="Cup"), now=clock())
    events.update_event(db, grace, "cup", EventChanges(ends_at=NOW + DAY), now=clock())
    with pytest.raises(Conflict):
        events.update_event(db, grace, "cup", EventChanges(ends_at=NOW + HOUR), now=clock())


def test_the_end_of_an_event_is_news_of_its_leaderboards_once(db, grace) -> None:
    cup(db, grace, "one", ends_at=NOW + 2 * DAY)
    for moment in (NOW + DAY + HOUR, NOW + 2 * DAY + HOUR, NOW + 2 * DAY + 2 * HOUR):
        note_due(db, moment)
    kinds = [each.kind for each in items(db, OPERATOR, board="one")]
    assert kinds.count(NewsKind.DEADLINE) == kinds.count(NewsKind.FINAL) == 1
    change(db, grace, "one", deadline=NOW + 2 * DAY - HOUR)
    assert note_due(db, NOW + 2 * DAY + FINAL_WITHIN) == 0


def test_a_leaderboard_is_closed_now_by_its_managers(client, db, clock, person) -> None:
    grace, eve = person("grace", Role.CREATOR), person("eve", Role.CREATOR)
    make_board(db, creator=grace.actor)
    with pytest.raises(LeaderboardOpen) as told:
        finals.start(db, grace.actor, "double", now=clock())
    assert any("kernelcup admin close double" in each for each in told.value.__notes__)
    close = "/api/v1/leaderboards/double/close"
    assert client.post(close, headers=eve.headers).status_code == 403
    closed = client.post(close, headers=grace.headers)
    assert datetime.fromisoformat(closed.json()["deadline"]) == clock()
    clock.advance(1)
    again = client.post(close, headers=grace.headers)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")


@pytest.mark.parametrize("ago", [0, 59])
def test_a_deadline_of_the_present_minute_closes_at_once(db, grace, ago: int) -> None:
    make_board(db, name="one", creator=grace)
    now = NOW.replace(second=59)
    assert change(db, grace, "one", now=now, deadline=now - timedelta(seconds=ago)).deadline == now
    with pytest.raises(InvalidValue, match="already passed"):
        change(db, grace, "one", now=now + timedelta(minutes=5), deadline=now + timedelta(minutes=3))


def test_practice_goes_on_after_the_events_end(db, clock, grace, judging) -> None:
    cup(db, grace, "one", ends_at=NOW + HOUR)
    change(db, grace, "one", after_deadline=AfterDeadline.PRACTICE)
    clock.advance(HOUR.total_seconds() + 1)
    judging.judge(1000, "ada", board="one")
    assert sums(db, clock) == {}
