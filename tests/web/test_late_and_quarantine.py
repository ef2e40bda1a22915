"""Late exceptions of a leaderboard, and results that are put aside by hand, in the browser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect
from test_admin_pages import EVIL, judged, post

from builders import NOW, make_board
from kernelcup.app.boards import late_exceptions
from kernelcup.app.results import reviews
from kernelcup.app.results.standings import standings
from kernelcup.domain import OPERATOR, Role

LATE = "/admin/boards/double/late"


@pytest.fixture
def people(db, person) -> dict[str, Any]:
    """A leaderboard of grace's on which ada stands."""
    found = {
        "ada": person("ada"),
        "eve": person("eve", Role.CREATOR),
        "grace": person("grace", Role.CREATOR),
        "root": person("root", Role.ADMIN),
    }
    make_board(db, creator="grace", deadline=NOW + timedelta(days=1))
    judged(db, "ada")
    return found


@pytest.mark.jobs
def test_an_exception_is_added_changed_and_removed(visitor, people, db) -> None:
    page = visitor(people["grace"], width=360, javascript=False).open("/admin/boards/double")
    page.get_by_role("link", name="Late exceptions").click()
    for day, shown in (
        ("2030-01-31T23:59", "31 Jan 2030, 23:59"),
        ("2030-02-28T23:59", "28 Feb 2030, 23:59"),
    ):
        page.get_by_label("User").fill("ada")
        page.get_by_label("Until").fill(day)
        page.get_by_role("button", name="Add").click()
        expect(page.get_by_role("region", name="Late exceptions")).to_contain_text(shown)
    (each,) = late_exceptions.late_exceptions(db, OPERATOR, "double")
    assert (each.user, f"{each.until:%Y-%m-%d %H:%M:%S}") == ("ada", "2030-02-28 23:59:00")
    page.get_by_role("button", name="Remove the exception of ada").click()
    expect(page.get_by_text("None.")).to_be_visible()
    assert late_exceptions.late_exceptions(db, OPERATOR, "double") == []


def test_an_exception_that_cannot_be_is_told_and_kept_in_the_form(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    for user, until, text in (
        ("nobody", "2030-01-31", "There is no user"),
        ("ada", "2001-01-31", "has already passed"),
        ("ada", f"{NOW:%Y-%m-%d %H:%M} +00:00", "has already passed"),
        ("ada", EVIL, "is not a date or time"),
        (EVIL, "2030-01-31", "There is no user"),
    ):
        answer = post(client, LATE, user=user, until=until)
        assert (answer.status_code, text in answer.text, EVIL in answer.text) == (400, True, False)
    assert late_exceptions.late_exceptions(db, OPERATOR, "double") == []


@pytest.mark.jobs
def test_a_result_is_put_aside_from_its_page(visitor, people, db) -> None:
    page = visitor(people["grace"], width=360, javascript=False).open("/s/1")
    page.get_by_text("Put aside").click()
    page.get_by_label("Why").fill(f"the text of #7 {EVIL}")
    page.get_by_role("button", name="Put the result aside").click()
    expect(page.get_by_role("heading", name="Review of #1")).to_be_visible()
    expect(page.get_by_text(f"the text of #7 {EVIL}")).to_be_visible()
    assert page.get_by_role("link", name="#7").get_attribute("href") == "/s/7"
    expect(page.get_by_role("region", name="Times of each case")).to_be_visible()
    (review,) = reviews.open_reviews(db, OPERATOR)
    assert (review.job_id, review.opened_by, standings(db, "double", "H100")) == (1, "grace", [])
    page.get_by_role("link", name="#1").click()
    expect(page.get_by_role("link", name="waits for a review")).to_be_visible()
    assert page.get_by_role("button", name="Put the result aside").count() == 0


def test_a_rejected_result_can_be_put_aside_again(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    reviews.quarantine(db, OPERATOR, 1, reason="look", now=NOW)
    reviews.decide(db, OPERATOR, 1, decision="rejected", note="copied", now=NOW)
    assert "Put the result aside" in client.get("/s/1").text
    assert post(client, "/admin/jobs/1/quarantine", reason=" ").status_code == 400
    again = post(client, "/admin/jobs/1/quarantine", reason="look again")
    assert again.headers["location"] == "/admin/reviews/2"


def test_only_those_who_manage_a_leaderboard_are_offered_to_put_its_results_aside(
    client, people, signed_in
) -> None:
    assert "quarantine" not in client.get("/s/1").text
    for name, offered in (("ada", False), ("eve", False), ("root", True)):
        client.cookies.update(signed_in(people[name]))
        assert ("/admin/jobs/1/quarantine" in client.get("/s/1").text) is offered, name
