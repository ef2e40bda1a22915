"""popcorn-cli registers at the address that is built into it, after the person said yes on a page."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from fake_provider import CLIENT_SECRET, FakeProvider, fake_provider
from kernelcup.app.people import accounts
from kernelcup.app.people.queries import users
from kernelcup.config.settings import Config
from kernelcup.config.sign_in import SignInSection
from kernelcup.domain import OPERATOR

BASE = "http://127.0.0.1:8000"
HERE = {"Sec-Fetch-Site": "same-origin"}
PAGE = "/auth/link-client"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as each:
        yield each


@pytest.fixture
def config(config: Config, provider: FakeProvider) -> Config:
    section = SignInSection(
        client_id="of-popcorn-cli",
        authorize_url=f"{provider.url}/authorize",
        token_url=f"{provider.url}/token",
        api_url=provider.url,
    )
    return dataclasses.replace(
        config,
        signin_sections=(("github", section), ("discord", section)),
        environ={f"KERNELCUP_{name}_SECRET": CLIENT_SECRET for name in ("GITHUB", "DISCORD")},
        extension_options={"kernelbot": {"registration": True}},
    )


@pytest.fixture
def browser(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE, follow_redirects=False) as each:
        yield each


class Registering:
    """The client's half: it asks for its secret, writes it down, and sends the browser away."""

    def __init__(self, browser: TestClient, provider: FakeProvider, name: str = "github") -> None:
        self.http, self.provider, self.name = TestClient(browser.app, base_url=BASE), provider, name
        self.cli_id = self.http.get(f"/auth/init?provider={name}").json()["state"]

    def returning(self, *, is_reset: bool = False) -> dict[str, str]:
        """Return what the browser brings back from the provider."""
        sent = json.dumps({"cli_id": self.cli_id, "is_reset": is_reset}).encode()
        code = self.provider.allow_without_challenge(f"{BASE}/auth/cli/{self.name}")
        return {"code": code, "state": base64.urlsafe_b64encode(sent).decode().rstrip("=")}

    def come_back(self, browser: TestClient, *, is_reset: bool = False) -> Any:
        """Come back from the provider; return the page."""
        answer = browser.get(f"/auth/cli/{self.name}", params=self.returning(is_reset=is_reset))
        assert answer.status_code == 303, answer.text
        return browser.get(answer.headers["location"])

    def status(self) -> int:
        """Return how the server answers to the client's secret."""
        return int(self.http.get("/user/submissions", headers={"X-Popcorn-Cli-Id": self.cli_id}).status_code)


@pytest.fixture
def cli(browser: TestClient, provider: FakeProvider) -> Registering:
    return Registering(browser, provider)


def decide(browser: TestClient, page: Any, decision: str = "link") -> Any:
    """Send the page's form."""
    found = re.search(r'name="csrf_token" value="(\w+)"', page.text)
    assert found is not None
    return browser.post(PAGE, data={"csrf_token": found[1], "decision": decision}, headers=HERE)


def names(db: Any) -> list[str]:
    with db.read() as session:
        return [each.name for each in users.page(session, after_id=None, limit=50, query=None)]


def test_a_client_registers_after_its_person_said_yes(cli, browser, db) -> None:
    page = cli.come_back(browser)
    assert "Link this client to your account?" in page.text
    for told in ("popcorn-cli, from", "ada at GitHub", "submit for you, and read what you may see"):
        assert told in page.text
    assert cli.status() == 401
    assert names(db) == []
    assert "Client linked" in decide(browser, page).text
    assert cli.status() == 200
    assert names(db) == ["ada"]


def test_a_client_whose_person_refuses_stays_out(cli, browser, db) -> None:
    page = cli.come_back(browser)
    assert "Nothing was stored" in decide(browser, page, "refuse").text
    assert cli.status() == 401
    assert names(db) == []
    again = browser.get(f"/auth/cli/{cli.name}", params=cli.returning())
    assert again.status_code == 404


def test_a_form_of_another_site_links_nothing(cli, browser, db) -> None:
    cli.come_back(browser)
    assert browser.post(PAGE, data={"decision": "link"}).status_code == 403
    assert browser.post(PAGE, data={"decision": "link"}, headers=HERE).status_code == 403
    assert cli.status() == 401
    assert names(db) == []


def test_another_browser_cannot_answer(cli, browser, app) -> None:
    cli.come_back(browser)
    with TestClient(app, base_url=BASE) as other:
        assert other.get(PAGE).status_code == 404


def test_a_secret_is_linked_once(cli, browser, app) -> None:
    page = cli.come_back(browser)
    with TestClient(app, base_url=BASE, follow_redirects=False) as other:
        late = cli.come_back(other)
        decide(browser, page)
        assert decide(other, late).status_code == 404


def test_a_client_that_waits_too_long_begins_again(cli, browser, clock) -> None:
    page = cli.come_back(browser)
    clock.advance(16 * 60)
    assert decide(browser, page).status_code == 404
    assert cli.status() == 401


def test_registering_again_signs_earlier_clients_out(cli, browser, provider) -> None:
    decide(browser, cli.come_back(browser))
    second, third = Registering(browser, provider), Registering(browser, provider)
    decide(browser, second.come_back(browser))
    assert (cli.status(), second.status()) == (200, 200)
    page = third.come_back(browser, is_reset=True)
    assert "are signed out" in page.text
    decide(browser, page)
    assert (cli.status(), second.status(), third.status()) == (401, 401, 200)


def test_a_banned_person_links_no_client(cli, browser, db, clock) -> None:
    decide(browser, cli.come_back(browser))
    accounts.ban(db, OPERATOR, "ada", reason="cheated", now=clock())
    second = Registering(browser, cli.provider)
    assert decide(browser, second.come_back(browser)).status_code == 403
    assert second.status() == 401


def test_a_state_of_no_client_is_refused(browser) -> None:
    for state in ("", "x", "W10", "bnVsbA", "eyJjbGlfaWQiOiAxfQ"):
        answer = browser.get("/auth/cli/github", params={"code": "c", "state": state})
        assert answer.status_code == 400
        assert "Invalid state parameter" in answer.text


def test_a_secret_that_was_not_given_out_is_refused(cli, browser) -> None:
    cli.cli_id = "made-up"
    assert browser.get("/auth/cli/github", params=cli.returning()).status_code == 404


def test_a_code_that_the_provider_does_not_know_is_refused(cli, browser) -> None:
    sent = cli.returning() | {"code": "made-up"}
    answer = browser.get("/auth/cli/github", params=sent)
    assert answer.status_code == 400
    assert "GitHub refused" in answer.text
    assert CLIENT_SECRET not in answer.text


def test_beginning_is_limited(browser) -> None:
    answers = [browser.get("/auth/init?provider=github").status_code for _ in range(21)]
    assert answers.count(200) == 20
    assert answers[-1] == 429


def test_by_another_address_it_names_a_client_that_can_be_had(browser) -> None:
    answer = browser.get("/auth/init?provider=github", headers={"Host": "cup.example.org"})
    assert answer.status_code == 400
    assert "kernelcup login --popcorn" in answer.json()["detail"]
    assert f"{BASE}/tokens" in answer.json()["detail"]
