"""The organiser's page of an event: made, changed and led to its final in a browser."""

from __future__ import annotations

import re
from typing import Any

from looks import check_page

from builders import NOW, make_board
from hand_judging import Judging
from kernelcup.app.courses import membership
from kernelcup.app.events import events, registration
from kernelcup.app.events.settings import EventChanges
from kernelcup.domain import OPERATOR, Role, Visibility

HERE = {"Origin": "http://127.0.0.1:8000", "Accept": "text/html"}


def sent(client: Any, cookies: dict[str, str], form: str, **data: str) -> Any:
    """Send a form of the organiser's page, and return the page after it."""
    client.cookies.clear()
    client.cookies.update(cookies)
    token = re.search(r'name="csrf_token" value="(\w+)"', client.get("/account").text)
    assert token is not None
    return client.post(f"/e/spring/{form}", data=data | {"csrf_token": token[1]}, headers=HERE)


def test_an_event_is_made_and_gets_its_settings_and_leaderboards(visitor, person, db) -> None:
    grace = person("grace", Role.CREATOR)
    make_board(db, creator="grace")
    page = visitor(grace, width=390).open("/admin")
    page.get_by_role("link", name="Events").click()
    page.get_by_label("Name, for its address").fill("spring")
    page.get_by_role("button", name="Create").click()
    page.get_by_label("Title").fill("Spring cup")
    page.get_by_label("Text").fill("Be *fast*.\n\nAnd exact.")
    page.get_by_label("Registration", exact=True).check()
    page.get_by_label("Fields").fill("Lab\nStatus=student|other")
    page.get_by_label("Team size").fill("2")
    page.get_by_label("Ends at").fill("2031-03-15T12:00")
    page.get_by_label("Points by").select_option("leader")
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Weight of its points").fill("2.5")
    page.get_by_role("button", name="Add").click()
    check_page(page)
    made = events.show_event(db, OPERATOR, "spring")
    assert (made.title, made.text, made.fields) == (
        "Spring cup",
        "Be *fast*.\n\nAnd exact.",
        ("Lab", "Status=student|other"),
    )
    assert (made.registration, made.team_size, made.points_by.value) == (True, 2, "leader")
    assert made.ends_at is not None
    assert made.ends_at.isoformat() == "2031-03-15T11:00:00+00:00"  # the browser is in Berlin
    (board,) = events.list_boards_of(db, made, OPERATOR)
    assert (board.name, board.event_weight) == ("double", 2.5)


def test_saving_an_unchanged_page_changes_nothing_and_a_wrong_setting_is_told(
    client, person, db, signed_in
) -> None:
    grace = person("grace", Role.CREATOR)
    settings = EventChanges(text="Be fast.", prizes=["An H100, boxed", "A book"], opens_at=NOW)
    made = events.create_event(db, grace.actor, "spring", settings, now=NOW)
    data = {
        "text": "Be fast.",
        "prizes": "An H100, boxed\r\nA book",
        "opens_at": f"{NOW:%Y-%m-%dT%H:%M:%S}" if NOW.second else f"{NOW:%Y-%m-%dT%H:%M}",
        "team_size": "1",
        "points_by": "place",
        "place_points": made.place_points,
        "full_points": "100",
        "ties": "shared",
    }
    assert sent(client, signed_in(grace), "update", **data).status_code == 200
    assert events.show_event(db, OPERATOR, "spring") == made
    refused = sent(client, signed_in(grace), "update", **data | {"team_size": "many"})
    assert refused.status_code == 400
    assert "team_size" in refused.text


def test_the_first_of_the_table_get_into_the_final_on_the_page(client, person, db, clock, signed_in) -> None:
    grace = person("grace", Role.CREATOR)
    events.create_event(db, grace.actor, "spring", EventChanges(text="Be fast."), now=NOW)
    make_board(db, creator="grace", event="spring")
    make_board(db, name="final", creator="grace", event="spring", visibility=Visibility.CLOSED)
    judging = Judging(db, clock)
    judging.judge(1000, board="double")
    judging.judge(2000, "eve", board="double")
    data = {"leaderboard": "final", "first": "1"}
    assert sent(client, signed_in(grace), "advance", **data).status_code == 200
    assert [each.user for each in membership.members(db, OPERATOR, "final")] == ["ada"]
    refused = sent(client, signed_in(grace), "advance", **data | {"first": "no"})
    assert (refused.status_code, "first: " in refused.text) == (400, True)


def test_only_the_organiser_sees_who_registered_and_what_they_answered(client, person, db, signed_in) -> None:
    grace, ada = person("grace", Role.CREATOR), person("ada")
    settings = EventChanges(text="Be fast.", registration=True, fields=["Lab"])
    events.create_event(db, grace.actor, "spring", settings, now=NOW)
    registration.register(db, ada.actor, "spring", answers=["Lab=Night shift"], now=NOW)
    assert "Lab: Night shift" in client.get("/e/spring/manage", headers=grace.headers).text
    for other in (ada, person("carol", Role.CREATOR)):
        answer = client.get("/e/spring/manage", headers=other.headers)
        assert (answer.status_code, "Night" in answer.text) == (403, False)
        assert sent(client, signed_in(other), "delete", confirm="spring").status_code == 403
    gone = sent(client, signed_in(grace), "delete", confirm="spring")
    assert str(gone.url).endswith("/e")
    assert client.get("/e/spring").status_code == 404
