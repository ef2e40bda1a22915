from __future__ import annotations

import dataclasses
import hashlib
from datetime import timedelta

import pytest
from sqlalchemy import text

from builders import NOW, make_actor
from kernelcup.app.access import HERE
from kernelcup.app.people import accounts, login_links, tokens
from kernelcup.app.people.tokens import authenticate, create_token
from kernelcup.domain import NOBODY, OPERATOR, Actor, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound, ScopeMissing, SignInNeeded

READ, SUBMIT = frozenset({Scope.READ}), frozenset({Scope.READ, Scope.SUBMIT})


def token_of(db: Database, actor: Actor, scopes: frozenset[Scope] = SUBMIT, **more: object) -> str:
    """Make a token and return its secret."""
    return create_token(db, actor, name="laptop", scopes=scopes, entry=HERE, now=NOW, **more).secret  # type: ignore[arg-type]


def everything(db: Database) -> str:
    """Return all that is stored of tokens and links as text."""
    with db.engine.connect() as connection:
        names = ("tokens", "one_time_codes", "audit")
        return str([connection.execute(text(f"SELECT * FROM {name}")).all() for name in names])


def test_a_token_stands_for_its_user_with_its_scopes(db) -> None:
    ada = make_actor(db, "ada")
    actor = authenticate(db, token_of(db, ada), now=NOW)
    assert actor == dataclasses.replace(ada, scopes=SUBMIT)


def test_only_the_hash_of_a_secret_is_stored(db) -> None:
    ada = make_actor(db, "ada")
    secrets = [token_of(db, ada), tokens.make_session(db, ada.user_id, NOW)]
    secrets.append(login_links.make_login_link(db, ada.user_id, NOW))
    stored = everything(db)
    for secret in secrets:
        assert secret.startswith("kc_")
        assert len(secret) == 46
        assert secret not in stored
        assert hashlib.sha256(secret.encode()).hexdigest() in stored


def test_unknown_expired_and_revoked_tokens_give_one_error(db) -> None:
    ada = make_actor(db, "ada")
    expired = token_of(db, ada, expires_at=NOW + timedelta(hours=1))
    revoked = create_token(db, ada, name="x", scopes=READ, entry=HERE, now=NOW)
    tokens.revoke_token(db, ada, revoked.id, NOW)
    later = NOW + timedelta(hours=1)
    told = set()
    for secret in (expired, revoked.secret, "kc_" + "a" * 43, "None", "", "\ud800"):
        with pytest.raises(SignInNeeded) as caught:
            authenticate(db, secret, now=later)
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_token_never_has_more_scopes_than_its_users_role(db) -> None:
    ada = make_actor(db, "ada")
    with pytest.raises(Forbidden, match="manage"):
        token_of(db, ada, frozenset({Scope.READ, Scope.MANAGE}))
    with pytest.raises(Forbidden, match="admin"):
        token_of(db, OPERATOR, frozenset({Scope.ADMIN}), for_user="ada")


def test_a_token_loses_scopes_when_the_role_is_lowered_and_gets_them_back(db) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    secret = token_of(db, root, frozenset(Scope))
    accounts.change(db, OPERATOR, "root", role=Role.CREATOR, entry=HERE, now=NOW)
    lowered = authenticate(db, secret, now=NOW)
    assert (lowered.role, lowered.scopes) == (Role.CREATOR, SUBMIT | {Scope.INSPECT, Scope.MANAGE})
    accounts.change(db, OPERATOR, "root", role=Role.ADMIN, entry=HERE, now=NOW)
    assert authenticate(db, secret, now=NOW).scopes == frozenset(Scope)


def test_who_is_banned_still_reads_but_has_no_privilege(db) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    secret = token_of(db, root, frozenset(Scope))
    accounts.ban(db, OPERATOR, "root", reason="left", now=NOW)
    actor = authenticate(db, secret, now=NOW)
    assert actor.role is Role.PARTICIPANT
    assert Scope.READ in actor.scopes
    with pytest.raises(Forbidden):
        accounts.unban(db, actor, "root", now=NOW)


def test_a_token_makes_none_that_may_more(db) -> None:
    weak = dataclasses.replace(make_actor(db, "ada"), scopes=READ)
    with pytest.raises(ScopeMissing):
        token_of(db, weak, SUBMIT)


def test_a_user_has_to_do_with_the_own_tokens_only(db) -> None:
    ada, eve = make_actor(db, "ada"), make_actor(db, "eve")
    made = create_token(db, ada, name="x", scopes=READ, entry=HERE, now=NOW)
    with pytest.raises(Forbidden):
        token_of(db, eve, READ, for_user="ada")
    with pytest.raises(Forbidden):
        tokens.list_tokens(db, eve, now=NOW, for_user="ada")
    with pytest.raises(NotFound):
        tokens.revoke_token(db, eve, made.id, NOW)
    with pytest.raises(SignInNeeded):
        tokens.list_tokens(db, NOBODY, now=NOW)
    assert authenticate(db, made.secret, now=NOW).name == "ada"


def test_the_operator_makes_tokens_for_users(db) -> None:
    make_actor(db, "ada")
    assert authenticate(db, token_of(db, OPERATOR, READ, for_user="ada"), now=NOW).name == "ada"
    with pytest.raises(InvalidValue):
        token_of(db, OPERATOR, READ)
    with pytest.raises(NotFound):
        token_of(db, OPERATOR, READ, for_user="eve")


def test_tokens_are_listed_while_they_can_be_used(db) -> None:
    ada = make_actor(db, "ada")
    create_token(db, ada, name="short", scopes=READ, entry=HERE, now=NOW, expires_at=NOW + timedelta(hours=1))
    gone = create_token(db, ada, name="gone", scopes=READ, entry=HERE, now=NOW)
    create_token(db, ada, name="long", scopes=READ, entry=HERE, now=NOW, kind="popcorn")
    tokens.revoke_token(db, ada, gone.id, NOW)
    assert [each.name for each in tokens.list_tokens(db, ada, now=NOW)] == ["long", "short"]
    later = NOW + timedelta(hours=2)
    assert [each.kind for each in tokens.list_tokens(db, ada, now=later)] == ["popcorn"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"name": "a" * 201},
        {"name": "a\nb"},
        {"scopes": []},
        {"kind": "session"},
        {"expires_at": NOW},
    ],
)
def test_a_token_of_no_use_is_not_made(db, wrong) -> None:
    with pytest.raises(InvalidValue):
        create_token(
            db, make_actor(db, "ada"), **({"name": "x", "scopes": READ, "entry": HERE, "now": NOW} | wrong)
        )


def test_a_user_has_so_many_tokens_at_most(db, monkeypatch) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    ada = make_actor(db, "ada")
    token_of(db, ada)
    token_of(db, ada)
    with pytest.raises(Conflict, match="revoke one first"):
        token_of(db, ada)


def test_the_last_use_is_noted_once_a_minute(db) -> None:
    ada = make_actor(db, "ada")
    secret = token_of(db, ada)
    seen = []
    for seconds in (0, 59, 60):
        authenticate(db, secret, now=NOW + timedelta(seconds=seconds))
        seen.append(tokens.list_tokens(db, ada, now=NOW)[0].last_used_at)
    assert seen == [NOW, NOW, NOW + timedelta(seconds=60)]


def test_a_session_lasts_thirty_days_and_can_be_ended(db) -> None:
    ada = make_actor(db, "ada")
    secret = tokens.make_session(db, ada.user_id, NOW)
    assert authenticate(db, secret, now=NOW + timedelta(days=29)).scopes == SUBMIT
    with pytest.raises(SignInNeeded):
        authenticate(db, secret, now=NOW + timedelta(days=30))
    tokens.revoke_secret(db, secret, now=NOW)
    tokens.revoke_secret(db, "kc_unknown", now=NOW)
    with pytest.raises(SignInNeeded):
        authenticate(db, secret, now=NOW)


def test_of_too_many_sessions_the_oldest_ends(db, monkeypatch) -> None:
    monkeypatch.setattr(tokens, "MOST_SESSIONS", 2)
    ada = make_actor(db, "ada")
    kept = token_of(db, ada)
    first, second, third = (tokens.make_session(db, ada.user_id, NOW) for _ in range(3))
    with pytest.raises(SignInNeeded):
        authenticate(db, first, now=NOW)
    for secret in (second, third, kept):
        assert authenticate(db, secret, now=NOW).name == "ada"


def test_a_bot_acts_for_those_whose_identity_it_vouches_for(db) -> None:
    make_actor(db, "bot", Role.ADMIN)
    secret = token_of(db, OPERATOR, frozenset({Scope.ACT}), for_user="bot")
    bot = authenticate(db, secret, now=NOW)
    ada = tokens.act_for(db, bot, provider="discord", subject="9", login="ada", now=NOW)
    assert (ada.name, ada.role, ada.scopes) == ("ada", Role.PARTICIPANT, SUBMIT)
    again = tokens.act_for(db, bot, provider="discord", subject="9", login="ada_l", now=NOW)
    assert again.user_id == ada.user_id
    accounts.change(db, OPERATOR, "ada", role=Role.ADMIN, entry=HERE, now=NOW)
    admin = tokens.act_for(db, bot, provider="discord", subject="9", login="ada_l", now=NOW)
    assert (admin.role, admin.scopes) == (Role.CREATOR, SUBMIT | {Scope.INSPECT, Scope.MANAGE})
    accounts.ban(db, OPERATOR, "ada", reason="x", now=NOW)
    banned = tokens.act_for(db, bot, provider="discord", subject="9", login="ada_l", now=NOW)
    assert banned.role is Role.PARTICIPANT


def test_nobody_else_acts_for_others(db) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    weak = dataclasses.replace(root, scopes=frozenset(Scope) - {Scope.ACT})
    for actor in (weak, make_actor(db, "eve", Role.CREATOR), NOBODY):
        with pytest.raises((ScopeMissing, Forbidden, SignInNeeded)):
            tokens.act_for(db, actor, provider="discord", subject="9", login="ada", now=NOW)
    assert len(accounts.list_users(db, OPERATOR)) == 2


def test_a_login_link_works_once_and_for_a_quarter_of_an_hour(db) -> None:
    ada = make_actor(db, "ada")
    secret = login_links.make_login_link(db, ada.user_id, NOW)
    assert login_links.login_link_user(db, secret, NOW) == "ada"
    assert login_links.use_login_link(db, secret, NOW) == ada.user_id
    late = login_links.make_login_link(db, ada.user_id, NOW)
    for used, now in ((secret, NOW), (late, NOW + timedelta(minutes=15)), ("kc_no", NOW)):
        with pytest.raises(NotFound):
            login_links.login_link_user(db, used, now)
        with pytest.raises(NotFound):
            login_links.use_login_link(db, used, now)
