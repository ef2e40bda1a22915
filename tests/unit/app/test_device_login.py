from __future__ import annotations

import dataclasses
import re
from datetime import timedelta

import pytest

from builders import NOW, make_actor
from kernelcup.app.people import device_login, tokens
from kernelcup.app.people.device_login import (
    DeviceLogin,
    approve_device_login,
    find_device_login,
    poll_device_login,
    start_device_login,
)
from kernelcup.domain import NOBODY, OPERATOR, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import InvalidValue, NotFound, ScopeMissing, SignInNeeded

SUBMIT = frozenset({Scope.READ, Scope.SUBMIT})


def started(db: Database, scopes: frozenset[Scope] = SUBMIT) -> DeviceLogin:
    """Start a sign-in of a command line."""
    return start_device_login(db, client="kernelcup on box", scopes=scopes, now=NOW)


def polls(db: Database, login: DeviceLogin, *seconds: int) -> list[str]:
    """Poll at these times and return what is said."""
    times = [NOW + timedelta(seconds=each) for each in seconds]
    return [poll_device_login(db, login.device_code, now=now).status for now in times]


def test_a_command_line_gets_a_token_once_somebody_let_it_in(db) -> None:
    ada, login = make_actor(db, "ada"), started(db)
    assert polls(db, login, 0) == ["pending"]
    approve_device_login(db, ada, login.user_code, approve=True, now=NOW)
    result = poll_device_login(db, login.device_code, now=NOW)
    assert (result.status, result.user) == ("approved", "ada")
    assert result.secret is not None
    actor = tokens.authenticate(db, result.secret, now=NOW)
    assert (actor.name, actor.scopes) == ("ada", SUBMIT)
    (token,) = tokens.list_tokens(db, ada, now=NOW)
    assert (token.name, token.expires_at) == ("kernelcup on box", NOW + timedelta(days=180))


def test_a_device_code_is_redeemed_once(db) -> None:
    ada, login = make_actor(db, "ada"), started(db)
    approve_device_login(db, ada, login.user_code, approve=True, now=NOW)
    assert polls(db, login, 0, 5) == ["approved", "expired"]
    assert len(tokens.list_tokens(db, ada, now=NOW)) == 1


def test_the_code_is_easy_to_type(db) -> None:
    login = started(db)
    assert re.fullmatch("[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}", login.user_code)
    typed = f" {login.user_code.lower().replace('-', ' ')} "
    assert find_device_login(db, typed, NOW).client == "kernelcup on box"


def test_a_code_is_over_after_a_quarter_of_an_hour(db) -> None:
    ada, login = make_actor(db, "ada"), started(db)
    assert login.expires_at == NOW + timedelta(minutes=15)
    for act in (
        lambda: find_device_login(db, login.user_code, login.expires_at),
        lambda: approve_device_login(db, ada, login.user_code, approve=True, now=login.expires_at),
    ):
        with pytest.raises(NotFound):
            act()
    assert polls(db, login, 900) == ["expired"]


def test_a_token_that_was_not_fetched_in_time_is_not_handed_out(db) -> None:
    ada, login = make_actor(db, "ada"), started(db)
    approve_device_login(db, ada, login.user_code, approve=True, now=NOW)
    assert polls(db, login, 900) == ["expired"]
    assert tokens.list_tokens(db, ada, now=NOW) == []


def test_who_polls_too_often_is_told_to_slow_down(db) -> None:
    assert polls(db, started(db), 0, 1, 6, 8) == ["pending", "slow_down", "pending", "slow_down"]


def test_a_refused_command_line_is_told_so(db) -> None:
    login = started(db)
    approve_device_login(db, make_actor(db, "ada"), login.user_code, approve=False, now=NOW)
    assert polls(db, login, 0, 5) == ["denied", "expired"]


def test_what_was_decided_cannot_be_decided_again(db) -> None:
    ada, eve, login = make_actor(db, "ada"), make_actor(db, "eve"), started(db)
    approve_device_login(db, ada, login.user_code, approve=True, now=NOW)
    for approve in (True, False):
        with pytest.raises(NotFound):
            approve_device_login(db, eve, login.user_code, approve=approve, now=NOW)
    assert poll_device_login(db, login.device_code, now=NOW).user == "ada"


def test_only_a_person_lets_a_command_line_in(db) -> None:
    login = started(db)
    with pytest.raises(SignInNeeded):
        approve_device_login(db, NOBODY, login.user_code, approve=True, now=NOW)
    with pytest.raises(SignInNeeded):
        approve_device_login(db, OPERATOR, login.user_code, approve=True, now=NOW)
    assert polls(db, login, 0) == ["pending"]


def test_a_command_line_gets_no_scope_that_the_person_lacks(db) -> None:
    login = started(db, frozenset(Scope) - {Scope.ACT})
    root = dataclasses.replace(make_actor(db, "root", Role.ADMIN), scopes=SUBMIT)
    approve_device_login(db, root, login.user_code, approve=True, now=NOW)
    secret = poll_device_login(db, login.device_code, now=NOW).secret
    assert secret is not None
    assert tokens.authenticate(db, secret, now=NOW).scopes == SUBMIT
    none = started(db, frozenset({Scope.ADMIN}))
    with pytest.raises(ScopeMissing):
        approve_device_login(db, make_actor(db, "ada"), none.user_code, approve=True, now=NOW)


def test_no_name_and_scopes_that_no_command_line_may_have_are_refused(db) -> None:
    for scopes in (frozenset(), frozenset({Scope.READ, Scope.ACT})):
        with pytest.raises(InvalidValue):
            started(db, scopes)
    with pytest.raises(InvalidValue):
        start_device_login(db, client=" \n", scopes=SUBMIT, now=NOW)


def test_of_too_many_that_wait_the_one_goes_that_asks_least(db, monkeypatch) -> None:
    monkeypatch.setattr(device_login, "MOST_WAITING", 3)
    ada, *silent = (started(db) for _ in range(3))
    assert polls(db, ada, 5) == ["pending"]
    newest = start_device_login(db, client="x", scopes=SUBMIT, now=NOW + timedelta(seconds=6))
    states = [
        poll_device_login(db, each.device_code, now=NOW + timedelta(seconds=60)).status for each in silent
    ]
    assert sorted(states) == ["expired", "pending"]
    assert polls(db, ada, 90) == polls(db, newest, 90) == ["pending"]


def test_an_unknown_device_code_is_over(db) -> None:
    assert poll_device_login(db, "kc_unknown", now=NOW).status == "expired"
