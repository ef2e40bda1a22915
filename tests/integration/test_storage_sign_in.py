"""Sign-ins that come at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from builders import NOW, make_actor
from kernelcup.app.people import accounts, login_links, tokens
from kernelcup.app.people.device_login import approve_device_login, poll_device_login, start_device_login
from kernelcup.domain import OPERATOR, Scope
from kernelcup.errors import NotFound

AT_ONCE = 4


def at_once(act: Callable[[], Any]) -> list[Any]:
    """Do something several times at once and return what came of each."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [each.result() for each in [pool.submit(act) for _ in range(AT_ONCE)]]


def test_an_identity_that_comes_several_times_at_once_is_one_user(db) -> None:
    found = at_once(lambda: accounts.sign_in(db, provider="github", subject="7", login="ada", now=NOW))
    assert len(set(found)) == 1
    assert [user.name for user in accounts.list_users(db, OPERATOR) if user.identities] == ["ada"]
    assert len(accounts.list_users(db, OPERATOR)) == 1


def test_of_several_polls_at_once_one_gets_the_token(db) -> None:
    ada = make_actor(db, "ada")
    login = start_device_login(db, client="x", scopes=[Scope.READ], now=NOW)
    approve_device_login(db, ada, login.user_code, approve=True, now=NOW)
    found = at_once(lambda: poll_device_login(db, login.device_code, now=NOW).status)
    assert sorted(found) == ["approved"] + ["expired"] * (AT_ONCE - 1)
    assert len(tokens.list_tokens(db, ada, now=NOW)) == 1


def test_a_link_that_is_used_several_times_at_once_signs_in_once(db) -> None:
    ada = make_actor(db, "ada")
    secret = login_links.make_login_link(db, ada.user_id or 0, NOW)

    def use() -> int | None:
        try:
            return login_links.use_login_link(db, secret, NOW)
        except NotFound:
            return None

    assert sorted(at_once(use), key=str) == sorted([ada.user_id] + [None] * (AT_ONCE - 1), key=str)
