"""The bell in the head of each page."""

from __future__ import annotations

import itertools

import pytest
from looks import check_page
from playwright.sync_api import expect
from reports import judged, ranked

from builders import NOW, make_board
from kernelcup.app.events import announcements, events, registration
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.news import bell
from kernelcup.domain import Role


@pytest.mark.jobs
def test_the_bell_counts_without_reload_and_its_page_lists_what_is_new(visitor, person, db) -> None:
    make_board(db)
    page = visitor(person("ada"), width=390).open("/b/double")
    count = page.locator("#bell b")
    expect(count).to_have_text("0")
    judged(db, ranked())
    expect(count).to_have_text("1")
    page.locator("#bell").click()
    expect(page.get_by_role("link", name="Your #1 in double on H100: accepted.")).to_be_visible()
    check_page(page)
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_text("new", exact=True)).to_have_count(0)
    expect(page.locator("#bell b")).to_be_hidden()


@pytest.mark.jobs
def test_an_announcement_counts_on_a_page_that_is_open(visitor, person, db) -> None:
    grace, ada = person("grace", Role.CREATOR), person("ada")
    events.create_event(db, grace.actor, "spring", EventChanges(text="Be fast.", registration=True), now=NOW)
    make_board(db, event="spring")
    registration.register(db, ada.actor, "spring", now=NOW)
    page = visitor(ada, width=390).open("/b/double")
    count = page.locator("#bell b")
    expect(count).to_have_text("0")
    announcements.announce(db, grace.actor, "spring", "The deadline moves.", now=NOW)
    expect(count).to_have_text("1")
    page.locator("#bell").click()
    expect(page.get_by_role("link", name="The deadline moves.")).to_be_visible()


def test_the_stream_ends_for_who_does_without_the_bell(http, person, db) -> None:
    ada = person("ada")
    bell.set_bell(db, ada.actor, wanted=False)
    with http.stream("GET", "/bell/live", headers=ada.headers) as stream:
        assert "event: off" in itertools.islice(stream.iter_lines(), 3)
    assert http.get("/bell/live").status_code == 401
