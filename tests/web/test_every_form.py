"""A walk over all pages but the documents: each link is answered, and no form is taken without its token."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from looks import check_page
from starlette.testclient import TestClient
from test_form_security import forms_of

from builders import NOW, make_submission
from kernelcup.app import access
from kernelcup.app.boards import late_exceptions
from kernelcup.app.courses import membership
from kernelcup.app.events import events
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.machines import machines, reservations
from kernelcup.app.people import accounts, login_links
from kernelcup.app.results import reviews
from kernelcup.app.rules import limits
from kernelcup.app.submissions.submissions import list_views
from kernelcup.domain import OPERATOR, Role
from kernelcup.http.pages import routes
from kernelcup.http.sign_in import pages

HERE = {"Origin": "http://127.0.0.1:8000", "Accept": "text/html"}
SHOWN_AFTER_A_FORM = {
    "/account/unlink": "needs a second way to sign in",
    "/admin/boards/double/course": "needs a leaderboard without a course",
    "/admin/boards/grayscale/update": "follows a preview",
    "/admin/boards/grayscale/final": "needs a closed leaderboard",
    "/admin/boards/grayscale/unpause": "needs a pause",
    "/admin/devices/H100/unpause": "needs a pause",
    "/admin/devices/H100/up": "needs an outage",
    "/admin/reservations/1/release": "needs a reservation",
    "/admin/service/unpause": "needs a pause",
    "/admin/jobs/1/quarantine": "needs a result that nobody has put aside",
    "/bell/read": "needs something new",
    "/b/grayscale/webhooks/1/enable": "needs a webhook",
    "/b/grayscale/webhooks/1/remove": "needs a webhook",
    "/s/1/rejudge": "needs a judged submission",
    "/e/x/1": "stands for all forms of an event, which have words there",
    "/s/1/diff/1": "needs two judged submissions of the reader's own",
}
"""Forms that this walk does not meet, with the reason; ``test_form_security`` sends to their addresses, too."""
STARTS = (
    "/c/class-2026",
    "/c/class-2026/people",
    "/c/class-2026/grades",
    "/",
    "/queue",
    "/b/prefixsum",
    "/b/top-k",
    "/account",
    "/tokens",
    "/join",
    "/auth/device",
    "/admin",
    "/admin/users/ada",
    "/admin/users/banned",
    "/admin/users/root",
    "/admin/boards/grayscale",
    "/admin/boards/matmul-fp8/unveil",
    "/e",
    "/e/spring",
    "/e/spring/organise",
)


class Page(HTMLParser):
    """The links and files of a page, and its forms that are posted: the address and the token of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[tuple[str, str]] = []
        self._action: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link, the beginning of a form, or its token."""
        given = dict(attrs)
        if link := given.get("href") or given.get("src"):
            self.links.append(link)
        if tag == "form":
            self._action = given.get("action") if (given.get("method") or "").lower() == "post" else None
            if self._action:
                self.forms.append((self._action, ""))
        if tag == "input" and given.get("name") == "csrf_token" and self._action:
            self.forms[-1] = (self._action, given.get("value") or "")


@pytest.fixture
def root(client: TestClient, competition: None, person, signed_in, db) -> Any:
    """An admin who is signed in, and something of each kind that pages list."""
    somebody = person("root", Role.ADMIN)
    accounts.make_user(db, OPERATOR, "banned", role=Role.PARTICIPANT, now=NOW)
    accounts.ban(db, OPERATOR, "banned", reason="spam", now=NOW)
    login_links.make_links(db, OPERATOR, ["banned"], entry=access.HERE, now=NOW)
    limits.add_limit(db, OPERATOR, text="10/hour", now=NOW)
    membership.make_invites(db, OPERATOR, ["class-2026"], count=1, label="", now=NOW)
    late_exceptions.grant_late(db, OPERATOR, "grayscale", "ada", NOW.replace(year=NOW.year + 1), now=NOW)
    for name in ("lab", "drained"):
        machines.add_agent(db, name, now=NOW)
    machines.change(db, "drained", is_draining=True, now=NOW)
    shown = EventChanges(text="Be fast.", registration=True)
    events.create_event(db, somebody.actor, "spring", shown, now=NOW)
    until = NOW.replace(year=NOW.year + 1)
    reservations.reserve(db, ["lab"], board=None, begins_at=NOW, ends_at=until, now=NOW)
    judged = list_views(db, user="niklaus")[0]
    reviews.quarantine(db, OPERATOR, judged.jobs[0].id, reason="look", now=NOW)
    for _ in range(2):
        make_submission(db, board="grayscale", user="root", devices=["H100"], now=NOW)
    client.cookies.update(signed_in(somebody))
    return somebody


def kind_of(path: str) -> str:
    """Return what pages of one kind have in common: one of each is looked at."""
    plain = urlsplit(path).path
    plain = re.sub(r"/\d+", "/1", plain)
    plain = re.sub(r"^/(u|c|event|e)/[^/]+", r"/\1/x", plain)
    plain = re.sub(r"^/admin/(users|machines|devices)/[^/]+", r"/admin/\1/x", plain)
    return re.sub(r"^(/admin)?/(b|boards)/(?!new)[^/]+", r"\1/\2/x", plain)


def walk(client: TestClient, starts: list[str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Return the pages that links lead to, after their forms: the addresses with a page and the token there."""
    found: dict[str, tuple[str, str]] = {}
    pages = []
    waiting, seen, dead = list(starts), {kind_of(each) for each in starts}, []
    while waiting:
        path = waiting.pop(0)
        answer = client.get(path, headers=HERE)
        if answer.status_code >= 400:
            dead.append((path, answer.status_code))
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        page = Page(answer.text)
        pages.append(path)
        for action, token in page.forms:
            found.setdefault(kind_of(urljoin(path, action)), (path, token))
        for link in page.links:
            target = urljoin(path, link)
            if target.startswith("/") and not target.startswith("/docs/") and kind_of(target) not in seen:
                seen.add(kind_of(target))
                waiting.append(target)
    assert not dead
    assert "/b/x/duels/1" in seen
    return found, pages


def starts_of(newest: int) -> list[str]:
    """Return where the walk begins: the last two submissions are the admin's."""
    return [*STARTS, f"/s/{newest}", f"/s/{newest}/diff/{newest - 1}"]


@pytest.mark.dear("walks over all pages")
def test_each_form_that_any_page_shows_is_refused_without_its_token(client, root, db) -> None:
    other = TestClient(client.app, base_url="http://127.0.0.1:8000")
    newest = list_views(db, user="root")[0].id
    found, _ = walk(client, starts_of(newest))
    link = f"/auth/link/{login_links.make_login_link(db, root.actor.user_id, NOW)}"
    for each in (link, "/join"):
        ((action, token),) = Page(other.get(each).text).forms
        found[action] = (each, token)
    assert all(token for _, token in found.values()), found
    met = {kind_of(address) for address in found}
    for address, (page, token) in found.items():
        browser = other if address in (link, "/auth/join") else client
        wrong = ("0" if token[0] != "0" else "1") + token[1:]
        for data in ({}, {"csrf_token": wrong}):
            answer = browser.post(address, data=data, headers=HERE, follow_redirects=False)
            assert answer.status_code == 403, (page, address, data)
    known = {kind_of(each) for each in forms_of(routes.router) + forms_of(pages.pages)}
    missed = known - met - {kind_of(each) for each in SHOWN_AFTER_A_FORM} - {"/auth/link/1"}
    assert not missed


@pytest.mark.jobs
def test_every_page_fits_every_window_and_axe_finds_nothing(client, root, db, visitor) -> None:
    _, pages = walk(client, starts_of(list_views(db, user="root")[0].id))
    somebody = visitor(root)
    page = somebody.context.new_page()
    for path in pages:
        check_page(somebody.open(path, page))
        assert page.locator("h1").count() == 1, path
