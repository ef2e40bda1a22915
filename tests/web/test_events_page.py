"""Leaderboards of one event."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from looks import check_page
from reports import judged, ranked

from builders import NOW, SUBMISSION, make_board, make_device
from hand_judging import Judging, judge_on_two_classes
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.events import events
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.machines import machines
from kernelcup.app.results.freezes import freeze
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.errors import InvalidValue
from kernelcup_harness.protocol import Backend

DAY = timedelta(days=1)


def test_an_event_shows_its_boards_and_who_is_first(client, db, clock) -> None:
    make_board(db, event="Spring-2026", deadline=NOW + timedelta(days=2))
    make_board(db, name="later", event="spring-2026", deadline=NOW + timedelta(days=9))
    make_board(db, name="sooner", event="Spring-2026", deadline=NOW + timedelta(days=1))
    make_board(db, name="alone")
    Judging(db, clock).judge(1000, board="double")
    page = client.get("/e/spring-2026").text
    places = [page.index(f'href="/b/{name}"') for name in ("sooner", "double", "later")]
    assert places == sorted(places)
    assert "ada" in page
    assert "No one is ranked yet." in page
    assert "alone" not in page
    assert client.get("/e/autumn").status_code == 404
    home = client.get("/").text
    assert home.lower().count('href="/e/spring-2026"') == 1
    assert '/e/Spring-2026">Spring-2026</a>' in client.get("/b/sooner").text


def test_an_event_says_what_its_boards_say_of_their_times(platform, client, db) -> None:
    device = make_device(name="here", backend=Backend.EMULATED)
    platform.config = dataclasses.replace(platform.config, configured_devices=(device,))
    make_board(db, event="spring", devices=["here"])
    freeze(db, OPERATOR, "double", NOW, now=NOW)
    told = [
        line
        for line in client.get("/b/double?device=here").text.splitlines()
        if 'class="held"' in line and "<b>here</b>" in line
    ]
    page = client.get("/e/spring").text
    assert "mean nothing" in told[0]
    assert told[0] in page
    assert "Frozen since" in page


def test_an_event_of_closed_boards_does_not_exist_for_strangers(client, db, clock, person) -> None:
    make_board(db, event="secret", visibility=Visibility.CLOSED)
    unknown, hidden = client.get("/e/unheard"), client.get("/e/secret")
    assert hidden.status_code == unknown.status_code == 404
    assert "double" not in hidden.text
    make_board(db, name="open", event="secret")
    assert "double" not in client.get("/e/secret").text
    root = person("root", Role.ADMIN)
    assert "double" in client.get("/e/secret", headers=root.headers).text


def test_a_frozen_board_stays_as_it_was_on_its_events_page(client, db, clock) -> None:
    make_board(db, event="spring")
    judging = Judging(db, clock)
    judging.judge(2000)
    freeze(db, OPERATOR, "double", clock(), now=clock())
    clock.advance(1)
    before = client.get("/e/spring").text
    judging.judge(1000, "eve")
    assert client.get("/e/spring").text == before
    assert ">eve<" not in before


def test_an_event_is_given_changed_and_taken_away(client, db, person) -> None:
    grace = person("grace", Role.CREATOR)
    make_board(db)
    for event in ("spring", ""):
        answer = client.patch("/api/v1/leaderboards/double", json={"event": event}, headers=grace.headers)
        assert answer.json()["event"] == event
        assert client.get("/api/v1/leaderboards/double").json()["event"] == event
        assert client.get("/e/spring").status_code == (200 if event else 404)


@pytest.mark.parametrize("name", ["a b", "<b>", "../x", "é", "x" * 65, "-x"])
def test_a_name_that_no_address_can_have_is_refused(db, name: str) -> None:
    with pytest.raises(InvalidValue):
        make_board(db, event=name)
    make_board(db)
    with pytest.raises(InvalidValue):
        update_board(db, OPERATOR, "double", changes=BoardChanges(event=name), now=NOW)


@pytest.mark.jobs
def test_no_table_scrolls_sideways_on_a_phone(visitor, db, clock) -> None:
    names = ("grouped-matrix-product", "prefix-sum-of-segments", "double")
    for name in names:
        make_board(db, name=name, event="spring", deadline=NOW + timedelta(days=2))
        Judging(db, clock).judge(1000, board=name)
    page = visitor(width=390).open("/e/spring")
    tables = page.locator(".scroll")
    assert tables.count() == 1 + len(names)
    for table in tables.all():
        assert table.evaluate("it => it.scrollWidth - it.clientWidth") <= 0, table.inner_text()
    points = page.get_by_role("region", name="Points").first.inner_text()
    assert all(name in points for name in names)


def test_those_who_manage_a_board_see_what_its_runs_have_cost(client, db, clock, person) -> None:
    make_board(db, devices=["H100"], event="spring")
    judging = Judging(db, clock)
    judge_on_two_classes(judging)
    machines.change(db, "old", price_per_hour=36.0, now=clock())
    judging.submit("eve")
    lease = judging.claim()
    clock.advance(100)
    judging.finish(lease, machine="old")
    root = person("root", Role.ADMIN)
    assert "Its runs have cost 1.00 so far." in client.get("/e/spring", headers=root.headers).text
    assert "have cost" not in client.get("/e/spring").text


@pytest.mark.jobs
def test_people_register_found_a_team_and_join_it_on_the_page(visitor, person, db) -> None:
    settings = EventChanges(registration=True, terms="Be *nice*.", licence="MIT", fields=["Lab"], team_size=2)
    events.create_event(db, person("grace", Role.CREATOR).actor, "spring", settings, now=NOW)
    make_board(db, event="spring")
    ada = person("ada")
    ada_visits = visitor(ada, width=390)
    page = ada_visits.open("/b/double")
    page.get_by_role("link", name="Register for spring").click()
    assert page.url == ada_visits.open("/b/double/submit").url  # the form leads there, too
    page.get_by_label("Lab").fill("Night")
    page.get_by_label("I accept the rules and the licence MIT.").check()
    page.get_by_role("button", name="Register").click()
    page.get_by_label("Name of a new team").fill("Owls")
    page.get_by_role("button", name="Found a team").click()
    code = page.locator("#take-part ~ p code").inner_text()
    check_page(page)
    assert "MIT" in visitor(ada).open("/b/double/submit").locator("main").inner_text()
    other = visitor(person("bob")).open("/e/spring")
    other.get_by_label("Lab").fill("Day")
    other.get_by_label("I accept the rules and the licence MIT.").check()
    other.get_by_role("button", name="Register").click()
    other.get_by_label("Code of a team").fill(code)
    other.get_by_role("button", name="Join a team").click()
    assert "ada, bob; captain ada" in other.locator("main").inner_text()
    judged(db, ranked())
    assert "team Owls" in visitor().open("/u/bob").get_by_role("region", name="Personal bests").inner_text()


@pytest.mark.jobs
def test_a_question_is_asked_and_answered_on_the_page(visitor, person, db) -> None:
    grace = person("grace", Role.CREATOR)
    events.create_event(db, grace.actor, "spring", EventChanges(text="Be fast."), now=NOW)
    page = visitor(person("ada")).open("/e/spring")
    page.get_by_text("Ask the organiser").click()
    page.get_by_label("Only the organiser sees it").fill("Is Triton allowed?")
    page.get_by_role("button", name="Ask").click()
    own = visitor(grace).open("/e/spring")
    check_page(own)
    own.get_by_text("Answer", exact=True).first.click()
    own.get_by_label("Your answer").fill("Yes.")
    own.get_by_label("to all, without who asked").check()
    own.get_by_role("button", name="Answer").click()
    own.get_by_text("Announce something").click()
    own.get_by_label("For this page").fill("It begins.")
    own.get_by_role("button", name="Announce").click()
    seen = visitor().open("/e/spring").locator("main").inner_text()
    assert all(each in seen for each in ("Is Triton allowed?", "Yes.", "It begins."))
    assert "ada" not in seen


@pytest.mark.jobs
def test_an_event_is_made_and_organised_on_the_site(visitor, person, db) -> None:
    grace = person("grace", Role.CREATOR)
    make_board(db, creator="grace")
    organiser = visitor(grace, width=390)
    page = organiser.open("/e")
    page.get_by_label("Name in its address").fill("winter")
    page.get_by_role("button", name="Create").click()
    page.get_by_label("Title").fill("Winter cup")
    page.get_by_label("When it ends (Europe/Berlin; empty: none)").fill("2031-03-15T18:00")
    page.get_by_label("Only who has registered may submit").check()
    page.get_by_label("Fields").fill("Affiliation\nAge?")
    page.get_by_label("Team size").fill("two")
    organiser.expects_refusal = True
    page.get_by_role("button", name="Save").click()
    assert "team_size" in page.get_by_role("alert").inner_text()
    page.get_by_label("Team size").fill("2")  # the others stayed
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Weight of its points").fill("2")
    page.get_by_role("button", name="Add").click()
    page.get_by_text("double × 2").wait_for()
    check_page(page)
    made = events.show_event(db, OPERATOR, "winter")
    assert (made.title, made.registration, list(made.fields), made.team_size) == (
        "Winter cup",
        True,
        ["Affiliation", "Age?"],
        2,
    )
    assert f"{made.ends_at:%Y-%m-%d %H:%M}" == "2031-03-15 17:00"


def test_only_its_organiser_reads_what_an_event_asked(client, person, signed_in, db) -> None:
    events.create_event(db, person("grace", Role.CREATOR).actor, "spring", EventChanges(text="x"), now=NOW)
    assert client.get("/e/spring/organise").status_code == 401
    client.cookies.update(signed_in(person("eve", Role.CREATOR)))
    assert client.get("/e/spring/organise").status_code == 403


@pytest.mark.jobs
def test_an_event_is_walked_over_its_dates(visitor, person, db, clock) -> None:
    grace, ada = person("grace", Role.CREATOR), person("ada")
    dates = {"opens_at": DAY, "qualifier_at": 2 * DAY, "ends_at": 4 * DAY, "register_by": 9 * DAY}
    settings = EventChanges(registration=True, **{name: NOW + after for name, after in dates.items()})
    events.create_event(db, grace.actor, "spring", settings, now=NOW)
    for name in ("double", "final"):
        make_board(db, name=name, creator=grace.actor, deadline=NOW + 9 * DAY)
        events.add_board(db, grace.actor, "spring", name, now=NOW)
    late = BoardChanges(opens_at=NOW + 2 * DAY)
    update_board(db, grace.actor, "final", changes=late, now=NOW)
    surfer = visitor(ada, javascript=False)
    page = surfer.open("/e/spring")

    def said(path: str) -> str:
        return surfer.open(path, page).locator("main").inner_text()

    def sends(board: str) -> str:
        """Submit a ranked file with the form, unless its page is refused, and return what is seen then."""
        text = said(f"/b/{board}/submit")
        if page.get_by_label("Code").count() == 0:
            return text
        page.get_by_label("Code").fill(SUBMISSION)
        page.locator("[name=mode][value=leaderboard]").check()
        with page.expect_navigation():
            page.get_by_role("button", name="Submit", exact=True).click()
        return page.locator("main").inner_text()

    surfer.expects_refusal = True
    page.get_by_role("button", name="Register").click()
    assert "then only final" in said("/e/spring")
    assert "not_open_yet" in sends("double")
    clock.advance(DAY.total_seconds())
    assert "number 1 in the queue" in sends("double")
    judging = Judging(db, clock)
    judging.finish(judging.claim())
    clock.advance(DAY.total_seconds() + 1)
    assert "deadline_passed" in sends("double")
    assert "number 1 in the queue" in sends("final")
    check_page(visitor().open("/e/spring"))
    clock.advance(2 * DAY.total_seconds())
    assert "deadline_passed" in sends("final")
    assert said("/e/spring").count("Ended") == 2
    assert "Ended 3 Jun" in said("/e/spring")
    assert "25" in page.get_by_role("region", name="Points").last.inner_text()
    assert "The registration has ended." in visitor().open("/e/spring").locator("main").inner_text()
