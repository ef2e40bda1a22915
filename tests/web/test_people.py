"""Accounts, tokens and profiles as people use them in a browser."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from looks import check_page
from playwright.sync_api import expect
from test_admin_pages import post

from builders import NOW, make_board, make_report, make_submission
from fake_provider import CLIENT_SECRET, FakeProvider, fake_provider
from kernelcup.app.courses import membership
from kernelcup.app.people import accounts, tokens
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import reviews
from kernelcup.app.results.standings import standings
from kernelcup.config.settings import Config
from kernelcup.config.sign_in import SignInSection
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup_harness.protocol import Mode

HTML = {"Accept": "text/html"}


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as each:
        yield each


@pytest.fixture
def config(config: Config, provider: FakeProvider) -> Config:
    """The configuration with GitHub, which is the fake one."""
    section = SignInSection(
        client_id="kernelcup",
        authorize_url=f"{provider.url}/authorize",
        token_url=f"{provider.url}/token",
        api_url=provider.url,
    )
    return dataclasses.replace(
        config, signin_sections=(("github", section),), environ={"KERNELCUP_GITHUB_SECRET": CLIENT_SECRET}
    )


def judged(db, user: str, board: str = "double", seconds: float = 1e-6) -> int:
    """Submit and judge something ranked."""
    sent = make_submission(db, board=board, user=user, mode=Mode.LEADERBOARD)
    lease = lifecycle.claim_next(db, owner="t", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    report = make_report([seconds * 1e9])
    lifecycle.finish(db, lease, report=report, harness_hash="f", machine="m", now=NOW)
    return sent.id


@pytest.mark.jobs
def test_a_person_signs_in_with_a_provider_and_out(visitor, provider) -> None:
    somebody = visitor()
    page = somebody.open("/queue")
    # The provider's own page is played by its answer: it says yes and sends the browser back.
    with page.expect_navigation():
        page.get_by_role("link", name="Sign in").click()
    check_page(page)
    begun = somebody.context.request.get(
        somebody.url + page.get_by_role("link", name="Sign in with GitHub").get_attribute("href"),
        max_redirects=0,
    )
    back = provider.allow(begun.headers["location"])
    somebody.open(f"/auth/callback/github?{urlencode(back)}", page)
    assert page.url == somebody.url + "/queue"
    for link in ("ada", "account"):
        with page.expect_navigation():
            page.get_by_role("link", name=link, exact=True).click()
    check_page(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in", exact=True)).to_be_visible()


@pytest.mark.jobs
@pytest.mark.parametrize("javascript", [True, False])
def test_a_token_made_in_the_page_opens_the_api(visitor, person, http, javascript) -> None:
    page = visitor(person("ada"), width=360, javascript=javascript).open("/tokens")
    page.get_by_label("What it is for").fill("<i>CI</i> of my kernels")
    page.get_by_role("button", name="Make a token").click()
    secret = page.locator("#made pre").inner_text().strip()
    headers = {"Authorization": f"Bearer {secret}"}
    assert http.get("/api/v1/me", headers=headers).json()["name"] == "ada"
    if javascript:
        check_page(page)
    page.goto(page.url)
    assert secret not in page.content()
    page.get_by_role("row", name="<i>CI</i> of my kernels").get_by_role("button").click()
    assert http.get("/api/v1/me", headers=headers).status_code == 401


@pytest.mark.jobs
def test_a_command_line_is_let_in_by_keyboard_alone(visitor, person, http) -> None:
    begun = http.post("/api/v1/auth/device", json={"client": "kernelcup on <box>"}).json()
    page = visitor(person("ada"), width=360).open("/auth/device")
    check_page(page)
    page.keyboard.type(begun["user_code"])
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Allow").focus()
    check_page(page)
    page.keyboard.press("Enter")
    expect(page.get_by_text("The command line is signed in")).to_be_visible()
    got = http.post("/api/v1/auth/device/token", json={"device_code": begun["device_code"]}).json()
    assert got["user"] == "ada"


@pytest.mark.jobs
def test_profile_shows_bests_and_history(visitor, person, db) -> None:
    person("ada")
    make_board(db)
    best = judged(db, "ada", seconds=2e-6)
    judged(db, "ada", seconds=5e-6)
    page = visitor(width=360).open("/u/ada")
    check_page(page)
    bests = page.get_by_role("region", name="Personal bests")
    expect(bests.get_by_role("row")).to_have_count(2)
    expect(bests).to_contain_text(f"#{best}")
    expect(page.get_by_role("region", name="Submissions").get_by_role("row")).to_have_count(3)
    waiting = make_submission(db)
    page.reload()
    expect(page.get_by_role("link", name=f"#{waiting.id}")).to_have_count(0)


def test_profile_of_others_leaves_out_where_they_have_a_pseudonym(client, person, db, signed_in) -> None:
    make_board(db, pseudonymous=True)
    ada = person("ada")
    judged(db, "ada")
    assert "double" not in client.get("/u/ada").text
    client.cookies.update(signed_in(ada))
    assert "double" in client.get("/u/ada").text


def test_profile_of_others_leaves_out_closed_boards(client, person, db) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    person("ada")
    membership.add_member(db, OPERATOR, "double", "ada", now=NOW)
    judged(db, "ada")
    assert "double" not in client.get("/u/ada").text


def test_history_comes_in_pages(client, person, db, signed_in) -> None:
    ada = person("ada")
    make_board(db)
    for _ in range(31):
        make_submission(db, user="ada")
    client.cookies.update(signed_in(ada))
    first = client.get("/u/ada").text
    (address,) = re.findall(r'href="(/u/ada\?before=\d+)"', first)
    second = client.get(address).text
    numbers = [set(re.findall(r'href="/s/(\d+)"', text)) for text in (first, second)]
    assert (len(numbers[0]), len(numbers[1])) == (30, 1)
    assert not numbers[0] & numbers[1]


def test_unknown_user_is_told_so(client) -> None:
    assert client.get("/u/nobody-at-all", headers=HTML).status_code == 404


def test_own_submission_says_why_it_does_not_rank(client, person, db, signed_in) -> None:
    ada = person("ada")
    make_board(db)
    judged(db, "ada")
    reviews.quarantine(db, OPERATOR, 1, reason="too fast <b>", now=NOW)
    assert "A person looks at this result" not in client.get("/u/ada").text
    client.cookies.update(signed_in(ada))
    told = client.get("/u/ada").text
    assert "A person looks at this result" in told
    assert "too fast &lt;b&gt;" in told


def test_account_pages_need_somebody_who_is_signed_in(client) -> None:
    for path in ("/account", "/tokens", "/join"):
        answer = client.get(path, headers=HTML)
        assert answer.status_code == 401
        assert f"/auth/login?next={path}" in answer.text


@pytest.mark.jobs
def test_an_invite_opens_its_boards_after_a_click(visitor, person, db) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    (code,) = membership.make_invites(db, OPERATOR, ["double"], now=NOW).codes
    ada = person("ada")
    page = visitor(ada, width=360).open(f"/join?code={code}")
    check_page(page)
    assert membership.members(db, OPERATOR, "double") == []
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("status")).to_have_text("You belong to double now: double.")
    for address in ("/c/double", "/b/double"):
        expect(page.get_by_role("status").locator(f'a[href="{address}"]')).to_have_text("double")
    assert [each.user for each in membership.members(db, OPERATOR, "double")] == ["ada"]


def test_a_code_that_is_none_is_told_beside_the_form(client, person, signed_in) -> None:
    client.cookies.update(signed_in(person("ada")))
    answer = post(client, "/account/join", code='"><script>alert(1)</script>')
    assert answer.status_code == 400
    assert "There is no such invite code." in answer.text
    assert "<script>alert" not in answer.text


def test_a_link_code_is_shown_for_the_bot(client, person, signed_in) -> None:
    client.cookies.update(signed_in(person("ada")))
    answer = post(client, "/account/link-code")
    assert re.search(r"/link code:[A-Z0-9]{4}-[A-Z0-9]{4}", answer.text)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.jobs
@pytest.mark.parametrize("javascript", [True, False])
def test_a_user_does_without_direct_messages(visitor, person, http, javascript) -> None:
    ada = person("ada")
    page = visitor(ada, width=360, javascript=javascript).open("/account")
    box = page.get_by_label("The bot writes to me when one of my results is overtaken")
    expect(box).to_be_checked()
    for wanted in (False, True):
        box.set_checked(wanted)
        with page.expect_navigation():
            page.locator("form", has=box).get_by_role("button", name="Save").click()
        expect(box).to_be_checked(checked=wanted)
        assert http.get("/api/v1/me", headers=ada.headers).json()["direct_messages"] is wanted
    if javascript:
        check_page(page)


def test_providers_are_named_as_people_know_them(client, person, signed_in, db) -> None:
    ada = person("ada")
    accounts.sign_in(db, provider="github", subject="1", login="ada", now=NOW, actor=ada.actor)
    client.cookies.update(signed_in(ada))
    assert "<strong>GitHub</strong> as ada" in client.get("/account").text


def test_a_user_renames_themself(client, person, signed_in, db) -> None:
    client.cookies.update(signed_in(person("ada")))
    person("bob")
    assert post(client, "/account/name", name="bob").status_code == 400
    assert post(client, "/account/name", name="lovelace").status_code == 303
    assert accounts.get_user(db, OPERATOR, "lovelace").name == "lovelace"


def test_a_user_takes_a_shown_name(client, person, signed_in, db) -> None:
    client.cookies.update(signed_in(person("ada")))
    person("bob")
    assert post(client, "/account/shown-name", shown_name="Bob").status_code == 400
    assert post(client, "/account/shown-name", shown_name="Ada L.").status_code == 303
    assert accounts.get_user(db, OPERATOR, "ada").shown_name == "Ada L."
    assert 'value="Ada L."' in client.get("/account").text
    assert post(client, "/account/shown-name", shown_name="").status_code == 303
    assert accounts.get_user(db, OPERATOR, "ada").shown_name == ""


def test_a_participant_gets_no_token_with_more_than_their_role(client, person, signed_in) -> None:
    client.cookies.update(signed_in(person("ada")))
    answer = post(client, "/tokens", name="x", scope="admin")
    assert answer.status_code == 403
    page = client.get("/tokens").text
    assert 'value="admin"' not in page
    assert "admin" not in page.partition("<tbody>")[2].partition("</tbody>")[0]


def test_a_token_of_somebody_else_is_not_there(client, person, signed_in, db) -> None:
    bob = person("bob", Role.PARTICIPANT)
    (theirs,) = tokens.list_tokens(db, OPERATOR, now=NOW, for_user="bob")
    client.cookies.update(signed_in(person("ada")))
    assert post(client, f"/tokens/{theirs.id}/revoke").status_code == 404
    assert tokens.authenticate(db, bob.token, now=NOW).name == "bob"


def test_a_banned_user_reads_why(client, person, signed_in, db) -> None:
    ada = person("ada")
    accounts.ban(db, OPERATOR, "ada", reason="<b>spam</b>", now=NOW)
    client.cookies.update(signed_in(ada))
    assert "&lt;b&gt;spam&lt;/b&gt;" in client.get("/account").text


@pytest.mark.jobs
def test_a_user_deletes_the_account_after_typing_its_name(visitor, person, db) -> None:
    ada = person("ada")
    make_board(db)
    judged(db, "ada")
    somebody = visitor(ada, width=360)
    somebody.expects_refusal = True
    page = somebody.open("/account")
    check_page(page)
    page.get_by_label("Your name again").fill("eve")
    page.get_by_role("button", name="Delete my account").click()
    expect(page.get_by_role("alert")).to_contain_text("Confirm with the user's name 'ada'")
    page.get_by_label("Your name again").fill("ada")
    page.get_by_role("button", name="Delete my account").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()
    (entry,) = standings(db, "double", "H100")
    assert entry.user.startswith("deleted-")


def test_a_user_downloads_their_data(client, person, signed_in) -> None:
    client.cookies.update(signed_in(person("ada")))
    found = re.search(r'href="(/api/v1/users/ada/export)"', client.get("/account").text)
    assert found is not None
    assert client.get(found[1]).content[:2] == b"PK"


def test_an_admin_deletes_an_account_with_its_submissions(client, person, signed_in, db) -> None:
    person("ada")
    make_board(db)
    judged(db, "ada")
    client.cookies.update(signed_in(person("root", Role.ADMIN)))
    refused = post(client, "/admin/users/ada/delete", confirm="")
    assert (refused.status_code, "confirm: expected a value" in refused.text) == (400, True)
    done = post(client, "/admin/users/ada/delete", confirm="ada", submissions="true")
    assert (done.status_code, done.headers["location"][:21]) == (303, "/admin/users/deleted-")
    assert "Banned since" in client.get(done.headers["location"]).text
    assert standings(db, "double", "H100") == []
