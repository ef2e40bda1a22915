"""Joining an account that a bot vouches for with one's own."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from builders import NOW, make_actor
from kernelcup.app.access import HERE
from kernelcup.app.people import account_linking, accounts, login_links
from kernelcup.app.people.tokens import make_session
from kernelcup.domain import OPERATOR, Role
from kernelcup.domain.answers import Identity
from kernelcup.errors import Conflict, NotFound
from kernelcup.http.throttle import RETRY_S

API = "/api/v1"


@pytest.fixture
def bot(person):
    """Return what a bot's requests for somebody carry."""
    service = person("the-bot", Role.ADMIN)

    def acting(number: int, login: str):
        return service.headers | {"X-KernelCup-Act-For": f"discord:{number}:{login}"}

    return acting


@pytest.fixture
def code(db):
    """A code of somebody who signs in with GitHub."""
    accounts.sign_in(db, provider="github", subject="1", login="lovelace", now=NOW)
    return account_linking.make_link_code(db, actor_of(db, "lovelace"), entry=HERE, now=NOW).code


def actor_of(db, name):
    from kernelcup.app.people.tokens import scopes_of
    from kernelcup.domain import Actor

    user = accounts.get_user(db, OPERATOR, name)
    return Actor(user_id=user.id, name=user.name, role=user.role, scopes=scopes_of(user.role))


def me(client, headers):
    return client.get(f"{API}/me", headers=headers).json()["name"]


def test_a_code_joins_two_accounts_once(client, bot, code, db) -> None:
    assert re.fullmatch("[A-Z]{4}-[A-Z]{4}", code)
    assert me(client, bot(7, "ada")) == "ada"
    linked = client.post(f"{API}/link", json={"code": code.lower().replace("-", " ")}, headers=bot(7, "ada"))
    assert linked.json() == {"user": "lovelace"}
    assert me(client, bot(7, "ada")) == "lovelace"
    again = client.post(f"{API}/link", json={"code": code}, headers=bot(8, "bob"))
    assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")


def test_a_code_ends_after_a_quarter_of_an_hour(client, bot, code, clock) -> None:
    clock.advance(account_linking.LASTS.total_seconds())
    assert client.post(f"{API}/link", json={"code": code}, headers=bot(7, "ada")).status_code == 404


def test_a_code_is_no_sign_in_link(db, code) -> None:
    for plain in (code, f"link:{code}"):
        with pytest.raises(NotFound):
            login_links.use_login_link(db, plain, NOW)


def test_codes_cannot_be_guessed_for_long(client, bot) -> None:
    tries = [client.post(f"{API}/link", json={"code": "BBBB"}, headers=bot(7, f"ada{n}")) for n in range(6)]
    assert [each.status_code for each in tries] == [404] * 5 + [429]
    assert tries[-1].headers["retry-after"] == str(RETRY_S)
    assert client.post(f"{API}/link", json={"code": "BBBB"}, headers=bot(8, "bob")).status_code == 404


def test_a_user_has_one_discord_account(client, bot, code, db) -> None:
    accounts.sign_in(db, provider="discord", subject="9", login="x", now=NOW, actor=actor_of(db, "lovelace"))
    answer = client.post(f"{API}/link", json={"code": code}, headers=bot(7, "ada"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")


def test_who_is_banned_joins_nothing(client, bot, code, db) -> None:
    me(client, bot(7, "ada"))
    accounts.ban(db, OPERATOR, "ada", reason="a test", now=NOW)
    answer = client.post(f"{API}/link", json={"code": code}, headers=bot(7, "ada"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "banned")


def test_a_joined_account_can_be_parted_again(client, bot, code) -> None:
    client.post(f"{API}/link", json={"code": code}, headers=bot(7, "ada"))
    assert client.post(f"{API}/unlink", headers=bot(7, "ada")).json() == {"done": True}
    assert me(client, bot(7, "ada")) == "ada-2"
    last = client.post(f"{API}/unlink", headers=bot(7, "ada"))
    assert (last.status_code, last.json()["error"]["code"]) == (409, "conflict")


def test_an_account_that_is_reached_by_a_token_can_be_parted(db, person) -> None:
    ada = person("ada").actor
    identity = Identity(provider="discord", subject="7", login="ada")
    code = account_linking.make_link_code(db, ada, entry=HERE, now=NOW).code
    accounts.sign_in(db, provider="discord", subject="7", login="zoe", now=NOW)
    account_linking.link(db, actor_of(db, "zoe"), code, identity, now=NOW)
    account_linking.unlink(db, ada, identity, now=NOW)
    with pytest.raises(NotFound):
        account_linking.unlink(db, ada, identity, now=NOW)


def test_nobody_joins_themself(db) -> None:
    accounts.sign_in(db, provider="discord", subject="7", login="zoe", now=NOW)
    zoe = actor_of(db, "zoe")
    code = account_linking.make_link_code(db, zoe, entry=HERE, now=NOW).code
    with pytest.raises(Conflict, match="your account already"):
        account_linking.link(db, zoe, code, Identity(provider="discord", subject="7", login="zoe"), now=NOW)


def test_a_code_is_given_to_browsers_only(client, db, person, bot) -> None:
    ada = person("ada")
    assert client.post(f"{API}/me/link-codes", headers=ada.headers).status_code == 403
    assert client.post(f"{API}/me/link-codes", headers=bot(7, "zoe")).status_code == 403
    actor = make_actor(db, "eve")
    client.cookies.set("kernelcup_session", make_session(db, actor.user_id, NOW))
    made = client.post(f"{API}/me/link-codes", headers={"Sec-Fetch-Site": "same-origin"})
    assert made.status_code == 201
    assert made.json()["expires_at"] == (NOW + timedelta(minutes=15)).isoformat().replace("+00:00", "Z")
