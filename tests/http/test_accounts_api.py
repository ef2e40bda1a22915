from __future__ import annotations

import io
import zipfile
from datetime import timedelta
from urllib.parse import quote

import pytest

from builders import NOW, make_board, make_submission
from kernelcup.app.access import HERE
from kernelcup.app.people import accounts
from kernelcup.domain import OPERATOR, Role, Scope
from kernelcup.http.auth import COOKIE


def test_expired_revoked_and_unknown_tokens_look_alike(client, person, clock) -> None:
    short = person("ada", expires_at=NOW + timedelta(seconds=1))
    gone = person("eve")
    assert client.delete("/api/v1/tokens/current", headers=gone.headers).status_code == 200
    clock.advance(1)
    told = set()
    for headers in (short.headers, gone.headers, {"Authorization": "Bearer kc_x"}):
        error = client.get("/api/v1/me", headers=headers).json()["error"]
        told.add((error["code"], error["message"]))
    assert len(told) == 1


def test_one_sees_oneself(client, person) -> None:
    ada = person("ada", Role.CREATOR, scopes={Scope.READ})
    body = client.get("/api/v1/me", headers=ada.headers).json()
    assert (body["name"], body["role"], body["scopes"]) == ("ada", "creator", ["read"])
    assert client.get("/api/v1/users/ADA", headers=ada.headers).json()["name"] == "ada"
    assert client.get("/api/v1/users/eve", headers=ada.headers).status_code == 403


def test_one_turns_direct_messages_off_with_a_token_that_submits(client, person) -> None:
    ada, reader = person("ada"), person("ada", scopes={Scope.READ})
    wanted = {"direct_messages": False}
    assert client.patch("/api/v1/me", json=wanted, headers=reader.headers).status_code == 403
    assert client.get("/api/v1/me", headers=ada.headers).json()["direct_messages"] is True
    assert client.patch("/api/v1/me", json=wanted, headers=ada.headers).json()["direct_messages"] is False
    assert client.get("/api/v1/me", headers=reader.headers).json()["direct_messages"] is False
    assert client.patch("/api/v1/me", json={}, headers=ada.headers).status_code == 422


def test_a_token_makes_no_tokens(client, person) -> None:
    ada = person("ada")
    answer = client.post("/api/v1/tokens", json={"name": "x"}, headers=ada.headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "scope_missing")
    answer = client.delete("/api/v1/me/identities/github", headers=ada.headers)
    assert answer.status_code == 403


def test_a_token_in_a_cookie_is_no_session(client, person) -> None:
    client.cookies.set(COOKIE, person("ada").token)
    page = {"Sec-Fetch-Site": "same-origin"}
    answer = client.post("/api/v1/tokens", json={"name": "x"}, headers=page)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "sign_in_needed")
    assert client.get("/api/v1/me").status_code == 401


def test_an_admin_makes_users_and_their_tokens(client, person) -> None:
    root = person("root", Role.ADMIN)
    made = client.post("/api/v1/users", json={"name": "bot", "role": "creator"}, headers=root.headers)
    assert made.status_code == 201
    wanted = {"name": "CI", "user": "bot", "scopes": ["read", "manage"], "days": 2}
    token = client.post("/api/v1/tokens", json=wanted, headers=root.headers).json()
    headers = {"Authorization": f"Bearer {token['secret']}"}
    me = client.get("/api/v1/me", headers=headers).json()
    assert (me["name"], me["scopes"]) == ("bot", ["manage", "read"])
    (listed,) = client.get("/api/v1/tokens", headers=headers).json()
    assert listed == {key: value for key, value in token.items() if key != "secret"} | {
        "last_used_at": listed["last_used_at"]
    }
    refused = client.post("/api/v1/tokens", json={**wanted, "scopes": ["admin"]}, headers=root.headers)
    assert refused.status_code == 403
    assert client.delete(f"/api/v1/tokens/{token['id']}", headers=root.headers).status_code == 200
    assert client.get("/api/v1/me", headers=headers).status_code == 401


def test_a_bot_acts_for_a_person(client, person, db) -> None:
    bot = person("bot", Role.ADMIN, scopes={Scope.ACT})
    headers = {**bot.headers, "X-KernelCup-Act-For": "discord:42:ada%20l"}
    me = client.get("/api/v1/me", headers=headers).json()
    assert (me["name"], me["scopes"]) == ("ada-l", ["read", "submit"])
    accounts.change(db, OPERATOR, "ada-l", role=Role.ADMIN, entry=HERE, now=NOW)
    answer = client.post("/api/v1/tokens", json={"name": "x"}, headers=headers)
    assert answer.json()["error"]["code"] == "scope_missing"


def test_a_bot_brings_the_display_name_with_the_account(client, person) -> None:
    bot = person("bot", Role.ADMIN, scopes={Scope.ACT})
    named = "discord:42:ada:Ada%20%3A%3A%20%F0%9F%90%8D"
    me = client.get("/api/v1/me", headers={**bot.headers, "X-KernelCup-Act-For": named}).json()
    assert (me["name"], me["shown_name"], me["identities"][0]["login"]) == ("ada", "Ada :: \U0001f40d", "ada")


def test_whom_to_act_for_has_one_form(client, person) -> None:
    bot = person("bot", Role.ADMIN)
    for value in ("discord", "discord:42", "discord::ada", ":42:ada", "Dis cord:42:ada"):
        answer = client.get("/api/v1/me", headers={**bot.headers, "X-KernelCup-Act-For": value})
        assert answer.json()["error"]["code"] == "invalid_value", value


def test_nobody_else_acts_for_others(client, person, db) -> None:
    act = {"X-KernelCup-Act-For": "discord:42:ada"}
    root = person("root", Role.ADMIN, scopes={Scope.READ, Scope.ADMIN})
    assert client.get("/api/v1/me", headers=act).status_code == 401
    assert client.get("/api/v1/me", headers={**person("eve").headers, **act}).status_code == 403
    assert client.get("/api/v1/me", headers={**root.headers, **act}).status_code == 403
    assert {user.name for user in accounts.list_users(db, OPERATOR)} == {"eve", "root"}


def test_a_taken_name_leaves_the_role(client, person, db) -> None:
    root = person("root", Role.ADMIN)
    person("ada")
    person("bob")
    body = {"name": "ada", "role": "admin"}
    answer = client.patch("/api/v1/users/bob", json=body, headers=root.headers)
    assert answer.status_code == 409
    assert accounts.get_user(db, OPERATOR, "bob").role is Role.PARTICIPANT


@pytest.mark.parametrize("name", ["ada", "zoë"])
def test_one_exports_oneself_and_an_admin_everybody(client, person, name, db) -> None:
    user = person(name)
    make_board(db)
    make_submission(db, user=name)
    for who in (user, person("root", Role.ADMIN)):
        answer = client.get(f"/api/v1/users/{name}/export", headers=who.headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
        assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name)}.zip"
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.namelist() == ["account.json", "1/submission.json", "1/code/kernel.py"]
    assert client.get(f"/api/v1/users/{name}/export", headers=person("eve").headers).status_code == 403
    assert client.get(f"/api/v1/users/{name}/export").status_code == 401


def test_one_deletes_oneself_with_the_name_as_confirmation(client, person, db) -> None:
    ada, reader = person("ada"), person("ada", scopes={Scope.READ})
    path = "/api/v1/users/ada"
    for who, query, status, code in (
        (reader, {"confirm": "ada"}, 403, "scope_missing"),
        (ada, {}, 422, "invalid_request"),
        (ada, {"confirm": "eve"}, 400, "invalid_value"),
        (person("eve"), {"confirm": "ada"}, 403, "forbidden"),
    ):
        answer = client.delete(path, params=query, headers=who.headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    answer = client.delete(path, params={"confirm": "ada"}, headers=ada.headers)
    assert answer.json()["name"].startswith("deleted-")
    assert client.get("/api/v1/me", headers=ada.headers).status_code == 401
    assert client.get("/api/v1/me", headers=reader.headers).status_code == 401


def test_a_bot_deletes_nobody(client, person) -> None:
    bot = person("bot", Role.ADMIN, scopes={Scope.ACT})
    headers = {**bot.headers, "X-KernelCup-Act-For": "discord:42:ada"}
    assert client.get("/api/v1/me", headers=headers).json()["name"] == "ada"
    answer = client.delete("/api/v1/users/ada", params={"confirm": "ada"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "scope_missing")
