"""Registration for events, and teams: one place on each leaderboard, limits in common."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from builders import NOW, make_actor, make_board, make_submission
from hand_judging import Judging
from kernelcup.app.access import Entry
from kernelcup.app.events import events
from kernelcup.app.events.points import points
from kernelcup.app.events.registration import (
    create_team,
    join_team,
    leave_team,
    list_teams,
    my_registration,
    register,
    registrations,
    withdraw,
)
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.news import bell
from kernelcup.app.people.accounts import ban, unban
from kernelcup.app.personal_data import delete_account
from kernelcup.app.results import freezes, table
from kernelcup.app.results.facts import facts_of
from kernelcup.app.results.profile import show_profile
from kernelcup.app.results.standings import personal_best, standings
from kernelcup.app.rules import limits
from kernelcup.app.submissions.submit import check_may_submit
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, NewsKind, Role
from kernelcup.domain.events import Team
from kernelcup.errors import (
    Conflict,
    DeadlinePassed,
    Forbidden,
    InvalidValue,
    NotFound,
    RateLimited,
    RegistrationNeeded,
)
from kernelcup_harness.protocol import Mode


@pytest.fixture
def judging(db, clock) -> Judging:
    settings = EventChanges(
        registration=True,
        terms="Be nice.",
        licence="MIT",
        fields=["Lab", "Status=student|other"],
        team_size=2,
        register_by=NOW + timedelta(days=1),
        teams_until=NOW + timedelta(days=2),
    )
    events.create_event(db, make_actor(db, "grace", Role.CREATOR), "spring", settings, now=NOW)
    make_board(db, event="spring")
    return Judging(db, clock)


def enter(db, *names: str):
    """Register users and return them."""
    people = [make_actor(db, name) for name in names]
    for person in people:
        register(db, person, "spring", accept=True, answers=["lab=X", "Status=other"], now=NOW)
    return people


def pair(db, clock):
    """Return ada, the captain of the Owls, and bob, who is in the team."""
    ada, bob = enter(db, "ada", "bob")
    team = create_team(db, ada, "spring", "Owls", now=clock())
    join_team(db, bob, "spring", team.code.lower(), now=clock())
    return ada, bob


def places(db, viewer=OPERATOR) -> list[tuple[str, str, int]]:
    found = standings(db, "double", "H100", viewer=viewer)
    return [(each.user, each.shown, round(each.score_s * 1e9)) for each in found]


def test_who_has_not_registered_is_told_where_to(db, judging, clock) -> None:
    with pytest.raises(RegistrationNeeded, match="kernelcup event register spring"):
        judging.submit("ada")
    with pytest.raises(RegistrationNeeded):
        check_may_submit(db, make_actor(db, "ada"), make_board(db, name="next", event="spring"), now=NOW)
    enter(db, "ada")
    assert judging.submit("ada", board="double").user == "ada"


def test_a_registration_needs_consent_answers_and_to_be_in_time(db, judging) -> None:
    ada = make_actor(db, "ada")
    with pytest.raises(InvalidValue, match="--accept"):
        register(db, ada, "spring", answers=["Lab=X", "Status=other"], now=NOW)
    for answers, problem in (
        (["Status=other"], "'Lab'"),
        (["Lab=X", "Status=teacher"], "one of: student, other"),
        (["Lab=X", "Status=other", "Age=7"], "asks no 'age'"),
    ):
        with pytest.raises(InvalidValue, match=problem):
            register(db, ada, "spring", accept=True, answers=answers, now=NOW)
    with pytest.raises(DeadlinePassed):
        register(db, ada, "spring", accept=True, now=NOW + timedelta(days=2))
    enter(db, "ada")
    (stored,) = registrations(db, OPERATOR, "spring")
    assert (stored.user, stored.answers) == ("ada", {"Lab": "X", "Status": "other"})
    with pytest.raises(Forbidden):
        registrations(db, ada, "spring")


def test_a_team_has_one_place_under_its_name(db, judging, clock) -> None:
    people = enter(db, "ada", "bob", "cyn")
    judging.judge(1000, "bob")
    judging.judge(2000, "ada")
    judging.judge(3000, "cyn")
    assert [user for user, _, _ in places(db)] == ["bob", "ada", "cyn"]
    ada, bob, _ = people
    team = create_team(db, ada, "spring", "Owls", now=clock())
    join_team(db, bob, "spring", team.code, now=clock())
    assert places(db, NOBODY) == [("ada", "Owls", 1000), ("cyn", "cyn", 3000)]
    judging.judge(500, "bob")
    judging.judge(900, "ada")
    assert places(db) == [("ada", "Owls", 500), ("cyn", "cyn", 3000)]
    mine = personal_best(db, "double", "H100", "bob", viewer=bob)
    assert mine is not None
    assert (mine.rank, mine.shown) == (1, "Owls")
    make_board(db, name="alone")
    judging.judge(700, "ada", board="alone")
    for name, boards in {"ada": ["alone", "double"], "bob": ["double"], "cyn": ["double"]}.items():
        bests = show_profile(db, name, viewer=NOBODY).bests
        assert [each.board.name for each in bests] == boards
    assert show_profile(db, "bob", viewer=NOBODY).bests[0].standing.shown == "Owls"
    assert len(facts_of(db, "double", "H100", standings(db, "double", "H100"))) == 2
    assert {each.shown for each in table.history(db, "double", "H100")} == {"Owls", "cyn"}
    assert [(row.shown, row.total) for row in points(db, NOBODY, "spring", now=clock()).rows] == [
        ("Owls", 25.0),
        ("cyn", 18.0),
    ]


def test_who_leaves_a_team_takes_the_results_along(db, judging, clock) -> None:
    ada, bob = pair(db, clock)
    judging.judge(1000, "bob")
    judging.judge(2000, "ada")
    leave_team(db, ada, "spring", now=clock())
    assert places(db) == [("bob", "Owls", 1000), ("ada", "ada", 2000)]
    taking = my_registration(db, bob, "spring")
    assert taking is not None
    assert taking.team is not None
    assert taking.team.captain == "bob"
    withdraw(db, bob, "spring", now=clock())
    assert my_registration(db, bob, "spring") is None
    assert places(db) == [("bob", "bob", 1000), ("ada", "ada", 2000)]


def gone(db, name: str, clock) -> str:
    """Delete an account and return its pseudonym."""
    return delete_account(db, OPERATOR, name, confirm=name, entry=Entry(by="session"), now=clock()).name


def test_a_deleted_captain_hands_on_to_who_registered_first(db, judging, clock) -> None:
    events.update_event(db, OPERATOR, "spring", EventChanges(team_size=4), now=clock())
    ada, *others = enter(db, "ada")
    team = create_team(db, ada, "spring", "Owls", now=clock())
    for name in ("zoe", "bob", "cyn"):  # not by their names
        others += enter(db, name)
        join_team(db, others[-1], "spring", team.code, now=clock())
    zoe, bob, _ = others
    judging.judge(1000, "bob")
    ranked = places(db)
    deleted = gone(db, "ada", clock)
    (shown,) = list_teams(db, OPERATOR, "spring")
    assert (shown.captain, shown.members) == ("zoe", ["zoe", "bob", "cyn", deleted])
    assert places(db) == [(deleted, *ranked[0][1:])]  # the place stays the team's
    with pytest.raises(Forbidden, match="captain"):
        leave_team(db, bob, "spring", member="cyn", now=clock())
    leave_team(db, zoe, "spring", member=deleted, now=clock())
    assert places(db) == [("zoe", *ranked[0][1:])]
    leave_team(db, zoe, "spring", member="cyn", now=clock())
    leave_team(db, zoe, "spring", now=clock())
    assert list_teams(db, OPERATOR, "spring") == [Team(name="Owls", captain="bob", members=["bob"])]


def test_who_is_captain_now_is_told_that_the_team_is_overtaken(db, judging, clock) -> None:
    _, bob = pair(db, clock)
    enter(db, "cyn")
    judging.judge(1000, "ada")
    gone(db, "ada", clock)
    judging.judge(500, "cyn")
    told = [each.kind for each in bell.show_bell(db, bob).items]
    assert NewsKind.OVERTAKEN in told


def test_a_banned_captain_is_captain_again_after_the_ban(db, judging, clock) -> None:
    pair(db, clock)
    for act, captain in ((partial(ban, reason="cheated"), "bob"), (unban, "ada")):
        act(db, OPERATOR, "ada", now=clock())
        assert [each.captain for each in list_teams(db, OPERATOR, "spring")] == [captain]


def test_a_captain_removes_a_member_whose_code_is_of_no_use_then(db, judging, clock) -> None:
    ada, bob = pair(db, clock)
    taking = my_registration(db, bob, "spring")
    assert taking is not None
    assert taking.team is not None
    with pytest.raises(Forbidden, match="captain"):
        leave_team(db, bob, "spring", member="ada", now=clock())
    leave_team(db, ada, "spring", member="bob", now=clock())
    with pytest.raises(NotFound):
        join_team(db, bob, "spring", taking.team.code, now=clock())


def test_a_team_has_a_size_and_a_lock_date(db, judging, clock) -> None:
    ada, _ = pair(db, clock)
    taking = my_registration(db, ada, "spring")
    assert taking is not None
    assert taking.team is not None
    (cyn,) = enter(db, "cyn")
    with pytest.raises(Conflict, match="full"):
        join_team(db, cyn, "spring", taking.team.code, now=clock())
    with pytest.raises(Conflict, match="too large"):
        events.update_event(db, OPERATOR, "spring", EventChanges(team_size=1), now=clock())
    late = NOW + timedelta(days=3)
    with pytest.raises(DeadlinePassed):
        create_team(db, cyn, "spring", "Cats", now=late)
    with pytest.raises(DeadlinePassed):
        leave_team(db, ada, "spring", now=late)


def test_a_team_shares_the_limits_of_a_leaderboard(db, judging, clock) -> None:
    pair(db, clock)
    enter(db, "cyn")
    limits.add_limit(db, OPERATOR, text="2/hour", board="double", now=NOW)
    limits.add_limit(db, OPERATOR, text="3/hour", now=NOW)
    judging.submit("ada")
    judging.submit("bob")
    with pytest.raises(RateLimited):
        judging.submit("ada")
    judging.submit("cyn")
    left = limits.budget(db, make_actor(db, "bob"), board="double", device="H100", now=clock())
    assert [each.remaining for each in left] == [0.0, 2.0]  # that of the whole service is each user's


def test_a_place_of_a_freeze_survives_the_team_and_goes_with_its_submission(db, judging, clock) -> None:
    pair(db, clock)
    first = judging.judge(1000, "bob")
    judging.judge(2000, "ada")
    freezes.freeze(db, OPERATOR, "double", now=clock())
    clock.advance(1)
    judging.judge(100, "bob")
    assert places(db, NOBODY) == [("ada", "Owls", 1000)]
    delete_submission(db, first.id, by=OPERATOR, now=clock())
    assert places(db, NOBODY) == [("ada", "Owls", 2000)]
    assert places(db) == [("ada", "Owls", 100)]


def test_after_the_deadline_tests_need_no_registration(db, judging, clock) -> None:
    make_board(db, name="over", event="spring", deadline=NOW + timedelta(seconds=1))
    clock.advance(10)
    assert make_submission(db, user="hal", board="over", devices=["H100"], mode=Mode.TEST, now=clock()).id
