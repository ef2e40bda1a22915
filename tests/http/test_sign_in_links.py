"""A server without GitHub and Discord: links of admins, accounts by invites, and where one lands."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from builders import NOW, make_board, make_device
from hand_judging import Judging
from kernelcup.app import access
from kernelcup.app.courses import membership
from kernelcup.app.people import accounts, login_links
from kernelcup.cli.operate.serve import offer_sign_in
from kernelcup.config.settings import ServerSettings
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.http.sign_in.pages import local_path
from kernelcup.tasks.shipped import load_shipped
from kernelcup_harness.protocol import Backend

BASE = "http://127.0.0.1:8000"
HERE = {"Origin": BASE, "Accept": "text/html"}
LIST = "user,pseudonym\nada,quiet fox\nbob,\n"


@pytest.fixture
def browser(app) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE, follow_redirects=False) as each:
        yield each


@pytest.fixture
def admin(client, db) -> TestClient:
    """A browser in which the admin has used the link that the command prints."""
    use(client, login_links.make_admin_link(db, NOW).url)
    return client


def send(browser: TestClient, page: str, action: str, **data: str) -> Any:
    """Send a form of a page."""
    found = re.search(r'name="csrf_token" value="(\w+)"', browser.get(page, headers=HERE).text)
    assert found is not None
    token = {"csrf_token": found[1]}
    return browser.post(action, data=token | data, headers=HERE, follow_redirects=False)


def use(browser: TestClient, url: str) -> str:
    """Open a sign-in link, press its button, and return where the browser is sent."""
    url = url.removeprefix(BASE)
    action = re.search(r'action="(/auth/link/[^"]+)"', browser.get(url).text)
    assert action is not None
    answer = send(browser, url, action[1])
    assert answer.status_code == 303
    return str(answer.headers["location"])


def name_of(browser: TestClient) -> str:
    return str(browser.get("/api/v1/me").json().get("name"))


def test_a_class_list_becomes_accounts_members_and_links_that_are_shown_once(admin, browser, db) -> None:
    make_board(db, name="week1", visibility=Visibility.CLOSED)
    sent = {"list": LIST, "create": "yes", "board": "week1", "hours": "24"}
    told = send(admin, "/admin/links", "/admin/links", **sent).text
    links = dict(line.split(",") for line in re.findall(r"(?m)(?:ada|bob),http\S+", told))
    assert set(links) == {"ada", "bob"}
    assert {(each.user, each.pseudonym) for each in membership.members(db, OPERATOR, "week1")} == {
        ("ada", "quiet fox"),
        ("bob", None),
    }
    later = admin.get("/admin/links").text
    assert "ada" in later
    assert all(link not in later for link in links.values())
    assert use(browser, links["ada"]) == "/b/week1"
    assert name_of(browser) == "ada"
    assert send(admin, "/admin/links", "/admin/links/revoke", user="bob").status_code == 303
    assert browser.get(links["bob"]).status_code == 404


def test_names_without_an_account_are_told_and_the_list_is_kept(admin, db) -> None:
    answer = send(admin, "/admin/links", "/admin/links", list="ada\n<b>bob")
    assert answer.status_code == 400
    assert "There is no user &#39;ada&#39;." in answer.text
    assert "User name &#39;&lt;b&gt;bob&#39;" in answer.text
    assert "ada\n&lt;b&gt;bob</textarea>" in answer.text
    assert len(accounts.list_users(db, OPERATOR)) == 1


def test_links_are_shown_although_the_members_could_not_be_made(admin, db) -> None:
    make_board(db, name="week1", visibility=Visibility.CLOSED)
    sent = {"list": "user,pseudonym\nada,fox\nbob,fox\n", "create": "yes", "board": "week1"}
    told = send(admin, "/admin/links", "/admin/links", **sent).text
    assert "line 3: the same pseudonym as in line 2" in told
    assert len(re.findall("/auth/link/kc_", told)) == 2
    assert membership.members(db, OPERATOR, "week1") == []


def test_an_admin_lands_on_the_admin_page_and_others_where_they_were_going(admin, browser, db) -> None:
    make_board(db, name="open")
    link = login_links.make_admin_link(db, NOW).url
    assert use(browser, link) == "/admin"
    browser.cookies.clear()
    (made,) = login_links.make_links(db, OPERATOR, ["ada"], create=True, entry=access.HERE, now=NOW)
    refused = browser.get("/b/open/submit?from=3", headers=HERE)
    assert refused.status_code == 401
    way = re.search(r'href="(/auth/login\?next=[^"]+)"', refused.text)
    assert way is not None
    assert "kernelcup admin user link" in browser.get(way[1]).text
    assert use(browser, made.url) == "/b/open/submit?from=3"


def test_no_link_leads_to_another_site(browser, db) -> None:
    for goal in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:1",
    ):
        assert local_path(goal) == "/auth/login"
        (made,) = login_links.make_links(db, OPERATOR, ["ada"], create=True, entry=access.HERE, now=NOW)
        assert use(browser, f"{made.url}?next={quote(goal, safe='')}") == "/auth/login"


def test_an_invite_makes_an_account_and_leads_to_its_board(browser, db) -> None:
    make_board(db, name="week1", visibility=Visibility.CLOSED)
    (code,) = membership.make_invites(db, OPERATOR, ["week1"], now=NOW).codes
    page = f"/join?code={code}"
    assert code in browser.get(page).text
    refused = send(browser, page, "/auth/join", code=code, name="a/b")
    assert refused.status_code == 400
    assert "User name &#39;a/b&#39;" in refused.text
    answer = send(browser, page, "/auth/join", code=code, name="ada")
    assert answer.headers["location"] == "/b/week1"
    assert browser.get("/b/week1").status_code == 200
    browser.cookies.clear()
    again = send(browser, page, "/auth/join", code=code, name="eve")
    assert (again.status_code, "used already" in again.text) == (400, True)


def test_a_student_makes_a_link_for_another_browser(browser, client, db) -> None:
    (made,) = login_links.make_links(db, OPERATOR, ["ada"], create=True, entry=access.HERE, now=NOW)
    use(browser, made.url)
    told = send(browser, "/account", "/account/sign-in-link").text
    link = re.search(r"http\S+/auth/link/kc_[\w-]+", told)
    assert link is not None
    use(client, link[0])
    assert name_of(client) == "ada"


def test_only_admins_see_and_make_links(client, person, db) -> None:
    for somebody in (person("ada"), person("grace", Role.CREATOR)):
        link = login_links.make_login_link(db, somebody.actor.user_id, NOW)
        use(client, f"/auth/link/{link}")
        assert client.get("/admin/links", headers=HERE).status_code == 403
        assert send(client, "/account", "/admin/links", list="root").status_code == 403
        assert send(client, "/account", "/admin/links/revoke", user="ada").status_code == 403


def test_an_old_link_is_told_to_be_one(browser, clock, db) -> None:
    (made,) = login_links.make_links(db, OPERATOR, ["ada"], create=True, entry=access.HERE, now=NOW, hours=1)
    clock.advance(3601)
    answer = browser.get(made.url, headers=HERE)
    assert answer.status_code == 404
    assert "unknown, expired or used" in answer.text


def test_a_class_works_without_a_provider_from_an_empty_server_to_the_first_ranked_student(
    client, browser, db, clock, platform
) -> None:
    """All that people do goes through pages; only the judge is played."""
    assert use(client, login_links.make_admin_link(db, NOW).url) == "/admin"
    assert "A new server" in client.get("/admin").text
    made = send(client, "/admin", "/admin/boards/new/shipped", shipped="vectoradd", closed="yes")
    assert made.status_code == 201
    assert "The leaderboard is made." in made.text
    sent = {"list": LIST, "create": "yes", "board": "vectoradd"}
    told = send(client, "/admin/links", "/admin/links", **sent).text
    (ada,) = re.findall(r"(?m)^.*ada,(http\S+)", told)
    assert browser.get("/b/vectoradd").status_code == 404
    assert use(browser, ada) == "/b/vectoradd"
    page = "/b/vectoradd/submit"
    code = load_shipped()["vectoradd"].templates["Python"]
    form = {"code": code, "device": "H100", "mode": "leaderboard", "file_name": "template.py"}
    submitted = send(browser, page, page, **form)
    assert submitted.status_code == 303, submitted.text
    judging = Judging(db, clock)
    judging.finish(judging.claim())
    board = browser.get("/b/vectoradd").text
    assert "ada" in board
    assert "1.000" in board
    rows = client.get("/c/vectoradd/grades.csv?board=vectoradd").text.splitlines()
    assert rows[1].startswith(",,,ada,,0,1,accepted,")


def test_a_new_server_offers_what_its_devices_can_judge_and_refuses_other_names(admin, db) -> None:
    offered = re.findall(r'<option value="(\w+)"', admin.get("/admin").text)
    assert "vectoradd_cuda" in offered
    answer = send(admin, "/admin", "/admin/boards/new/shipped", shipped="../../etc")
    assert answer.status_code == 400
    assert "expected one of" in answer.text
    assert send(admin, "/admin", "/admin/boards/new/shipped", shipped="softmax").status_code == 201
    assert "A new server" not in admin.get("/admin").text
    again = send(admin, "/admin/boards/new", "/admin/boards/new/shipped", shipped="softmax")
    assert again.status_code == 400


def test_where_no_device_has_a_gpu_no_task_in_cuda_is_offered(admin, platform) -> None:
    emulated = make_device(name="emulated", backend=Backend.EMULATED)
    platform.config = dataclasses.replace(platform.config, configured_devices=(emulated,))
    offered = re.findall(r'<option value="(\w+)"', admin.get("/admin").text)
    assert "vectoradd" in offered
    assert "vectoradd_cuda" not in offered


@pytest.mark.parametrize(("host", "is_printed"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_a_server_that_others_reach_names_the_command_and_prints_no_link(
    config, db, capsys, host: str, is_printed: bool
) -> None:
    offer_sign_in(dataclasses.replace(config, server=ServerSettings(host=host)), db, BASE)
    told = capsys.readouterr().out
    assert ("/auth/link/kc_" in told) is is_printed
    assert ("kernelcup admin user link" in told) is not is_printed


def test_a_server_starts_where_the_user_admin_is_no_admin(config, db, person, capsys) -> None:
    person("admin")
    offer_sign_in(config, db, BASE)
    told = capsys.readouterr().out
    assert "The user 'admin' is not an admin. `kernelcup admin user link NAME` prints one" in told
