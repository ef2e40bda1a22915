"""Webhooks of a leaderboard in the browser."""

from __future__ import annotations

import pytest
from looks import check_page

from builders import NOW, make_board
from kernelcup.domain import Role, Visibility
from kernelcup.tables import WebhookRow

URL = "https://93.184.215.14/hook"
PAGE = "/b/double/webhooks"


@pytest.mark.jobs
@pytest.mark.parametrize("javascript", [True, False])
def test_a_webhook_is_registered_shown_enabled_and_removed(visitor, person, db, javascript) -> None:
    make_board(db)
    page = visitor(person("grace", Role.CREATOR), javascript=javascript).open("/b/double")
    page.get_by_role("link", name="Webhooks").click()
    page.get_by_label("Address, with https").fill(URL)
    page.get_by_role("button", name="Register").click()
    assert page.locator("#made code").inner_text().startswith("whsec_")
    if javascript:
        check_page(page)
    assert "not used yet" in page.get_by_role("table").inner_text()
    page.goto(page.url)
    assert page.locator("#made").count() == 0
    with db.write() as session:
        row = session.get_one(WebhookRow, 1)
        row.failures, row.last_error, row.disabled_at = 10, "it answered 500", NOW
    page.reload()
    assert "it answered 500" in page.get_by_role("table").inner_text()
    page.get_by_role("button", name="Enable").click()
    assert "disabled" not in page.get_by_role("table").inner_text()
    page.get_by_role("button", name="Remove").click()
    assert "No address is registered yet." in page.locator("main").inner_text()


@pytest.mark.jobs
def test_an_address_that_cannot_be_used_is_refused_in_words(visitor, person, db) -> None:
    make_board(db)
    browser = visitor(person("grace", Role.CREATOR))
    browser.expects_refusal = True
    page = browser.open(PAGE)
    page.get_by_label("Address, with https").fill("https://127.0.0.1/hook")
    page.get_by_role("button", name="Register").click()
    assert "not a host on the public internet" in page.get_by_role("alert").inner_text()


def test_the_page_is_for_those_who_manage_the_board(client, person, db) -> None:
    make_board(db)
    make_board(db, name="closed", visibility=Visibility.CLOSED)
    eve = person("eve", Role.CREATOR)
    assert client.get(PAGE).status_code == 401
    assert client.get(PAGE, headers=eve.headers).status_code == 403
    assert client.get("/b/closed/webhooks", headers=eve.headers).status_code == 404
    assert PAGE not in client.get("/b/double", headers=eve.headers).text
