from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from builders import NOW
from fake_provider import CLIENT_SECRET, FakeProvider, fake_provider
from kernelcup.app.people import login_links, tokens
from kernelcup.app.people.device_login import start_device_login
from kernelcup.config.settings import Config
from kernelcup.config.sign_in import SignInSection
from kernelcup.domain import OPERATOR, Role, Scope

HERE = {"Sec-Fetch-Site": "same-origin"}
BASE = "http://127.0.0.1:8000"


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as each:
        yield each


@pytest.fixture
def config(config: Config, provider: FakeProvider) -> Config:
    """The configuration with both providers, which are the fake one."""
    section = SignInSection(
        client_id="kernelcup",
        authorize_url=f"{provider.url}/authorize",
        token_url=f"{provider.url}/token",
        api_url=provider.url,
    )
    environ = {f"KERNELCUP_{name}_SECRET": CLIENT_SECRET for name in ("GITHUB", "DISCORD")}
    sections = (("github", section), ("discord", section))
    return dataclasses.replace(config, signin_sections=sections, environ=environ)


@pytest.fixture
def browser(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE, follow_redirects=False) as each:
        yield each


@pytest.fixture
def other_browser(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=BASE, follow_redirects=False) as each:
        yield each


def begin(
    browser: TestClient, provider: FakeProvider, name: str = "github", query: str = ""
) -> dict[str, str]:
    """Begin a sign-in and allow it at the provider."""
    answer = browser.get(f"/auth/login/{name}{query}")
    assert answer.status_code == 302
    return provider.allow(answer.headers["location"])


def sign_in(browser: TestClient, provider: FakeProvider, name: str = "github", query: str = "") -> Any:
    """Sign a browser in."""
    return browser.get(f"/auth/callback/{name}", params=begin(browser, provider, name, query))


def token_of(browser: TestClient, path: str) -> str:
    """Return the token of a page's form."""
    found = re.search(r'name="csrf_token" value="(\w+)"', browser.get(path).text)
    assert found is not None
    return found[1]


def me(browser: TestClient) -> Any:
    """Return who a browser is."""
    return browser.get("/api/v1/me")


def test_a_person_signs_in_with_a_provider(browser, provider) -> None:
    answer = sign_in(browser, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/auth/login")
    cookie = next(each for each in answer.headers.get_list("set-cookie") if "kernelcup_session" in each)
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert me(browser).json()["name"] == "ada"
    assert "You are ada" in browser.get("/auth/login").text


def test_a_sign_in_leads_back_to_pages_of_ours_only(browser, provider) -> None:
    bad = ("https://evil.example", "//evil.example", "/\\evil.example", "/a\nb")
    for wanted in ("/b/vectoradd", *bad):
        begun = browser.get("/auth/login/github", params={"next": wanted})
        callback = provider.allow(begun.headers["location"])
        came = browser.get("/auth/callback/github", params=callback).headers["location"]
        assert came == ("/auth/login" if wanted in bad else wanted)


def test_a_callback_in_another_browser_is_refused(browser, other_browser, provider) -> None:
    callback = begin(browser, provider)
    answer = other_browser.get("/auth/callback/github", params=callback)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "sign_in_failed"
    begin(other_browser, provider)
    assert other_browser.get("/auth/callback/github", params=callback).status_code == 400
    assert me(other_browser).status_code == 401


def test_a_callback_works_once(browser, provider) -> None:
    callback = begin(browser, provider)
    assert browser.get("/auth/callback/github", params=callback).status_code == 303
    assert browser.get("/auth/callback/github", params=callback).status_code == 400


def test_a_state_of_one_provider_is_none_of_another(browser, provider) -> None:
    assert browser.get("/auth/callback/discord", params=begin(browser, provider)).status_code == 400


def test_a_code_of_another_browser_is_refused_by_its_challenge(browser, other_browser, provider) -> None:
    stolen, own = begin(other_browser, provider), begin(browser, provider)
    answer = browser.get("/auth/callback/github", params={**own, "code": stolen["code"]})
    assert answer.status_code == 400
    assert me(browser).status_code == 401


def test_discord_brings_the_name_that_it_shows(browser, provider) -> None:
    provider.account |= {"global_name": "Ada \u202e Lovelace"}
    sign_in(browser, provider, "discord")
    assert (me(browser).json()["name"], me(browser).json()["shown_name"]) == ("ada", "Ada Lovelace")


def test_an_account_is_linked_only_when_asked_for(browser, provider) -> None:
    sign_in(browser, provider, "github")
    sign_in(browser, provider, "discord", "?link=true")
    assert [each["provider"] for each in me(browser).json()["identities"]] == ["discord", "github"]
    provider.account = {"id": 8, "login": "eve", "username": "eve"}
    sign_in(browser, provider, "github")
    assert me(browser).json()["name"] == "eve"


def test_linking_needs_somebody_who_stays_signed_in(browser, other_browser, provider) -> None:
    assert browser.get("/auth/login/github?link=true").status_code == 401
    sign_in(browser, provider, "github")
    callback = begin(browser, provider, "discord", "?link=true")
    browser.cookies.delete("kernelcup_session")
    assert browser.get("/auth/callback/discord", params=callback).status_code == 409


def test_a_provider_that_names_nobody_signs_nobody_in(browser, provider) -> None:
    for account in ({}, {"id": True, "login": "ada"}, {"id": 7}, {"id": "", "login": "a"}):
        provider.account = account
        assert sign_in(browser, provider).status_code == 400, account
        assert me(browser).status_code == 401


def test_no_secret_of_a_sign_in_is_told_or_logged(browser, provider, caplog) -> None:
    caplog.set_level(0)
    provider.token_answer = {"error": "incorrect_client_credentials", "error_description": CLIENT_SECRET}
    answer = sign_in(browser, provider)
    assert answer.status_code == 400
    denied = begin(browser, provider)
    params = {"error": "access_denied", "error_description": CLIENT_SECRET, "state": denied["state"]}
    refused = browser.get("/auth/callback/github", params=params)
    assert "was not allowed" in refused.text
    assert "canary" not in answer.text + refused.text
    # The client of the tests logs the addresses that it asks for; the server's lines count.
    ours = [
        each
        for each in caplog.records
        if not each.getMessage().startswith("HTTP Request: GET http://127.0.0.1:8000")
    ]
    assert all("canary" not in each.getMessage() for each in ours)


def test_a_provider_that_is_not_configured_is_not_there(browser) -> None:
    assert browser.get("/auth/login/gitlab").status_code == 404


def test_signing_out_ends_the_session(browser, provider) -> None:
    sign_in(browser, provider)
    secret = browser.cookies["kernelcup_session"]
    assert browser.post("/auth/logout", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert browser.post("/auth/logout", headers=HERE).status_code == 403
    token = token_of(browser, "/account")
    assert browser.post("/auth/logout", data={"csrf_token": token}, headers=HERE).status_code == 303
    browser.cookies.set("kernelcup_session", secret)
    assert me(browser).status_code == 401


def test_a_session_changes_nothing_for_other_sites(browser, provider) -> None:
    sign_in(browser, provider)
    for headers, status in (
        ({}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": BASE}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": BASE}, 201),
        (HERE, 201),
    ):
        answer = browser.post("/api/v1/tokens", json={"name": "x"}, headers=headers)
        assert answer.status_code == status, headers


def test_a_one_time_link_asks_before_it_is_used(browser, other_browser, db, person) -> None:
    ada = person("ada", Role.ADMIN).actor
    url = f"/auth/link/{login_links.make_login_link(db, ada.user_id, NOW)}"
    for _ in range(2):
        assert "Sign in as ada" in browser.get(url).text
    data, others = {"csrf_token": token_of(browser, url)}, {"csrf_token": token_of(other_browser, url)}
    assert browser.post(url, data=data).status_code == 403
    assert browser.post(url, data=others, headers=HERE).status_code == 403
    assert browser.post(url, headers=HERE).status_code == 403
    assert browser.post(url, data=data, headers=HERE).status_code == 303
    assert me(browser).json()["role"] == "admin"
    for answer in (other_browser.get(url), other_browser.post(url, data=others, headers=HERE)):
        assert answer.status_code == 404


def test_a_command_line_is_let_in_by_somebody_who_sees_what_it_is(browser, other_browser, provider) -> None:
    asked = {"client": "kernelcup on <box>", "scopes": ["read", "submit", "admin"]}
    begun = other_browser.post("/api/v1/auth/device", json=asked).json()
    assert begun["verification_uri"] == f"{BASE}/auth/device"
    code = {"device_code": begun["device_code"]}
    pending = other_browser.post("/api/v1/auth/device/token", json=code)
    assert (pending.status_code, pending.json()["error"]["code"]) == (400, "authorization_pending")
    typed = {"user_code": begun["user_code"].lower()}
    assert browser.post("/auth/device", data=typed, headers=HERE).status_code == 401
    sign_in(browser, provider)
    typed["csrf_token"] = token_of(browser, "/auth/device")
    shown = browser.post("/auth/device", data=typed, headers=HERE).text
    assert "kernelcup on &lt;box&gt;, from testclient" in shown
    assert begun["user_code"] in shown
    assert "<dd>read, submit</dd>" in shown
    approval = {**typed, "decision": "approve"}
    assert browser.post("/auth/device", data=approval).status_code == 403
    assert "is signed in" in browser.post("/auth/device", data=approval, headers=HERE).text
    got = other_browser.post("/api/v1/auth/device/token", json=code).json()
    assert (got["token_type"], got["user"]) == ("Bearer", "ada")
    headers = {"Authorization": f"Bearer {got['access_token']}"}
    assert other_browser.get("/api/v1/me", headers=headers).json()["scopes"] == ["read", "submit"]
    again = other_browser.post("/api/v1/auth/device/token", json=code)
    assert again.json()["error"]["code"] == "expired_token"


def test_a_refused_command_line_is_told_so(browser, provider, db) -> None:
    login = start_device_login(db, client="x", scopes=[Scope.READ], now=NOW)
    sign_in(browser, provider)
    data = {"user_code": login.user_code, "decision": "deny", "csrf_token": token_of(browser, "/auth/device")}
    browser.post("/auth/device", data=data, headers=HERE)
    answer = browser.post("/api/v1/auth/device/token", json={"device_code": login.device_code}, headers=HERE)
    assert answer.json()["error"]["code"] == "access_denied"


def test_an_unknown_code_is_asked_for_again(browser, provider) -> None:
    sign_in(browser, provider)
    data = {"user_code": "<x>", "csrf_token": token_of(browser, "/auth/device")}
    answer = browser.post("/auth/device", data=data, headers=HERE)
    assert answer.status_code == 400
    assert "No client is waiting" in answer.text
    assert re.search("<input[^>]*user_code", answer.text)


def test_no_link_carries_a_code(browser, provider) -> None:
    sign_in(browser, provider)
    assert "BCDF" not in browser.get("/auth/device?user_code=BCDF-GHJK").text


def test_one_address_starts_only_so_many_sign_ins(browser) -> None:
    answers = [browser.post("/api/v1/auth/device", json={"client": "x"}) for _ in range(21)]
    assert [each.status_code for each in answers] == [201] * 20 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0


def test_pages_of_sign_in_are_not_kept(browser) -> None:
    for path in ("/auth/login", "/auth/device"):
        assert browser.get(path).headers["cache-control"] == "no-store"


def test_sessions_are_seen_and_ended_as_tokens(browser, provider, db) -> None:
    sign_in(browser, provider)
    (session,) = browser.get("/api/v1/tokens").json()
    assert session["kind"] == "session"
    browser.delete(f"/api/v1/tokens/{session['id']}", headers=HERE)
    assert me(browser).status_code == 401
    assert tokens.list_tokens(db, OPERATOR, now=NOW, for_user="ada") == []
