from __future__ import annotations

import contextlib
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.orm import Session

from builders import NOW, make_actor, make_board
from database_kinds import DATABASES
from kernelcup.app.access import HERE
from kernelcup.app.people import account_linking, accounts, audit_log
from kernelcup.app.people.queries import audit_log as stored_log
from kernelcup.app.people.queries import users
from kernelcup.app.people.user_names import ensure_user
from kernelcup.domain import NOBODY, OPERATOR, Actor, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import Banned, Conflict, Forbidden, InvalidValue, NotFound, ScopeMissing, SignInNeeded


def signed_in(db: Database, **overrides: str) -> Actor:
    """Sign somebody in and return them as they would act."""
    identity = {"provider": "github", "subject": "7", "login": "ada"} | overrides
    user_id = accounts.sign_in(db, **identity, now=NOW)
    (user,) = [each for each in accounts.list_users(db, OPERATOR) if each.id == user_id]
    return Actor(user_id=user.id, name=user.name, role=user.role, scopes=frozenset(Scope))


def test_the_first_sign_in_makes_a_participant_with_the_login_as_name(db) -> None:
    ada = signed_in(db)
    assert (ada.name, ada.role) == ("ada", Role.PARTICIPANT)
    (identity,) = accounts.get_user(db, ada, "ADA").identities
    assert (identity.provider, identity.subject, identity.login) == ("github", "7", "ada")


def test_the_same_identity_is_the_same_user_under_its_new_login(db) -> None:
    ada = signed_in(db)
    assert signed_in(db, login="ada-lovelace").user_id == ada.user_id
    assert accounts.get_user(db, ada, "ada").identities[0].login == "ada-lovelace"


def test_a_taken_name_is_not_taken_over(db) -> None:
    ensure_user(db, "Ada", now=NOW)
    assert signed_in(db).name == "ada-2"
    assert signed_in(db, subject="8").name == "ada-3"


@pytest.mark.parametrize(
    ("login", "name"),
    [
        ("operator", "operator-1"),
        ("a/b", "a-b"),
        ("me", "me-1"),
        ("..", "..-1"),
        ("", "github-7"),
        ("\n", "github-7"),
        ("a" * 80, "a" * 64),
    ],
)
def test_a_login_that_cannot_be_a_name_becomes_one(db, login, name) -> None:
    assert signed_in(db, login=login).name == name


@pytest.mark.parametrize(
    ("provider", "subject"), [("", "7"), ("git hub", "7"), ("github", ""), ("github", "ü")]
)
def test_an_identity_of_no_known_form_is_refused(db, provider, subject) -> None:
    with pytest.raises(InvalidValue):
        accounts.sign_in(db, provider=provider, subject=subject, login="ada", now=NOW)


def test_somebody_who_is_signed_in_links_another_identity(db) -> None:
    ada = signed_in(db)
    linked = accounts.sign_in(db, provider="discord", subject="9", login="ada_l", now=NOW, actor=ada)
    assert linked == ada.user_id
    assert [each.provider for each in accounts.get_user(db, ada, "ada").identities] == ["discord", "github"]


def test_an_identity_of_somebody_else_cannot_be_linked(db) -> None:
    signed_in(db)
    grace = signed_in(db, provider="discord", login="grace")
    with pytest.raises(Conflict, match="belongs to another user"):
        accounts.sign_in(db, provider="github", subject="7", login="ada", now=NOW, actor=grace)
    assert signed_in(db).name == "ada"


def test_one_identity_of_a_provider_is_linked_at_most(db) -> None:
    ada = signed_in(db)
    with pytest.raises(Conflict, match="unlink it first"):
        accounts.sign_in(db, provider="github", subject="8", login="ada2", now=NOW, actor=ada)


def test_an_identity_is_unlinked_but_not_the_last(db) -> None:
    ada = signed_in(db)
    accounts.sign_in(db, provider="discord", subject="9", login="ada", now=NOW, actor=ada)
    account_linking.unlink_identity(db, ada, "github", entry=HERE, now=NOW)
    with pytest.raises(Conflict, match="only way"):
        account_linking.unlink_identity(db, ada, "discord", entry=HERE, now=NOW)
    with pytest.raises(NotFound):
        account_linking.unlink_identity(db, ada, "github", entry=HERE, now=NOW)


def test_who_is_banned_stays_so_by_every_identity(db) -> None:
    ada = signed_in(db)
    accounts.sign_in(db, provider="discord", subject="9", login="ada", now=NOW, actor=ada)
    accounts.ban(db, OPERATOR, "ada", reason="shared a token", now=NOW)
    with pytest.raises(Banned):
        account_linking.unlink_identity(db, ada, "discord", entry=HERE, now=NOW)
    with pytest.raises(Banned):
        accounts.change(db, ada, "ada", new_name="eve", entry=HERE, now=NOW)
    assert signed_in(db, provider="discord", subject="9").user_id == ada.user_id
    banned = accounts.get_user(db, ada, "ada")
    assert (banned.banned_at, banned.ban_reason) == (NOW, "shared a token")
    assert accounts.unban(db, OPERATOR, "ada", now=NOW).banned_at is None


def test_a_ban_needs_a_reason_and_a_user(db) -> None:
    ensure_user(db, "ada", now=NOW)
    with pytest.raises(InvalidValue):
        accounts.ban(db, OPERATOR, "ada", reason="  ", now=NOW)
    with pytest.raises(NotFound):
        accounts.ban(db, OPERATOR, "eve", reason="eve", now=NOW)


def test_a_user_sees_the_own_account_only(db) -> None:
    ada = make_actor(db, "ada")
    make_actor(db, "grace")
    assert accounts.get_user(db, ada, "ada").name == "ada"
    for name in ("grace", "nobody-has-this"):
        with pytest.raises(Forbidden, match="your own account"):
            accounts.get_user(db, ada, name)
    with pytest.raises(SignInNeeded):
        accounts.get_user(db, NOBODY, "ada")
    assert accounts.get_user(db, make_actor(db, "root", Role.ADMIN), "grace").name == "grace"


@pytest.mark.parametrize("role", [Role.PARTICIPANT, Role.CREATOR])
def test_only_admins_manage_users(db, role) -> None:
    actor = make_actor(db, "eve", role)
    for act in (
        lambda: accounts.list_users(db, actor),
        lambda: accounts.make_user(db, actor, "new", role=Role.ADMIN, now=NOW),
        lambda: accounts.change(db, actor, "eve", role=Role.ADMIN, entry=HERE, now=NOW),
        lambda: accounts.ban(db, actor, "eve", reason="x", now=NOW),
        lambda: accounts.unban(db, actor, "eve", now=NOW),
    ):
        with pytest.raises(Forbidden):
            act()


@pytest.mark.parametrize("way", ["role", "ban"])
def test_the_last_admin_stays_one(db, way: str) -> None:
    root = make_actor(db, "root", Role.ADMIN)

    def end(actor) -> None:
        if way == "ban":
            accounts.ban(db, actor, "root", reason="a test", now=NOW)
        else:
            accounts.change(db, actor, "root", role=Role.PARTICIPANT, entry=HERE, now=NOW)

    with pytest.raises(Conflict, match="root is the last admin"):
        end(root)
    make_actor(db, "banned", Role.ADMIN)
    accounts.ban(db, OPERATOR, "banned", reason="a test", now=NOW)
    with pytest.raises(Conflict, match="root is the last admin"):
        end(root)
    make_actor(db, "second", Role.ADMIN)
    end(root)


@pytest.mark.parametrize("db_url", DATABASES, indirect=True)
@pytest.mark.parametrize("way", ["role", "ban"])
def test_of_two_admins_who_remove_each_other_at_once_one_stays(db, monkeypatch, way: str) -> None:
    both = [make_actor(db, name, Role.ADMIN) for name in ("ada", "bob")]
    checked = threading.Barrier(2)
    look = users.has_other_admin

    def look_and_wait(session: Session, user_id: int) -> bool:
        found = look(session, user_id)
        # Without a lock both have seen the other before either goes on; with one, the second still waits for it.
        with contextlib.suppress(threading.BrokenBarrierError):
            checked.wait(0.3)
        return found

    def end(actor: Actor, name: str) -> bool:
        try:
            if way == "ban":
                accounts.ban(db, actor, name, reason="a test", now=NOW)
            else:
                accounts.change(db, actor, name, role=Role.PARTICIPANT, entry=HERE, now=NOW)
        except Conflict:
            return False
        return True

    monkeypatch.setattr(users, "has_other_admin", look_and_wait)
    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(end, both, ("bob", "ada"))) == [False, True]
    found = [
        each for each in accounts.list_users(db, OPERATOR) if each.role is Role.ADMIN and not each.banned_at
    ]
    assert len(found) == 1


def test_the_machines_operator_takes_the_last_admin_away(db) -> None:
    make_actor(db, "root", Role.ADMIN)
    assert (
        accounts.change(db, OPERATOR, "root", role=Role.PARTICIPANT, entry=HERE, now=NOW).role
        is Role.PARTICIPANT
    )


def test_an_admins_token_without_the_scope_manages_nobody_and_reads_no_audit_log(db) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    weak = dataclasses.replace(root, scopes=frozenset({Scope.READ, Scope.MANAGE}))
    for read in (audit_log.entries, accounts.list_users):
        with pytest.raises(ScopeMissing, match="--scope admin"):
            read(db, weak)


def test_an_admin_makes_users_once_for_each_name(db) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    user = accounts.make_user(db, root, "Ada", role=Role.CREATOR, now=NOW)
    assert (user.name, user.role, user.identities) == ("Ada", Role.CREATOR, ())
    with pytest.raises(Conflict):
        accounts.make_user(db, root, "ada", role=Role.PARTICIPANT, now=NOW)


@pytest.mark.parametrize("name", ["operator", "Nobody", "me", ".."])
def test_names_that_would_deceive_the_audit_log_are_refused(db, name) -> None:
    with pytest.raises(InvalidValue):
        accounts.make_user(db, OPERATOR, name, role=Role.PARTICIPANT, now=NOW)


def test_a_user_takes_a_free_name(db) -> None:
    ada = make_actor(db, "ada")
    make_actor(db, "grace")
    with pytest.raises(Conflict):
        accounts.change(db, ada, "ada", new_name="Grace", entry=HERE, now=NOW)
    assert accounts.change(db, ada, "ada", new_name="Ada", entry=HERE, now=NOW).name == "Ada"
    with pytest.raises(Forbidden):
        accounts.change(db, ada, "grace", new_name="hopper", entry=HERE, now=NOW)


def test_users_come_in_pages_and_by_a_part_of_their_name(db) -> None:
    for name in ("ada", "Adam", "eve", "a_b"):
        ensure_user(db, name, now=NOW)
    first = accounts.list_users(db, OPERATOR, limit=3)
    rest = accounts.list_users(db, OPERATOR, limit=3, after_id=first[-1].id)
    assert [user.name for user in [*first, *rest]] == ["ada", "Adam", "eve", "a_b"]
    assert [user.name for user in accounts.list_users(db, OPERATOR, query="AD")] == ["ada", "Adam"]
    assert [user.name for user in accounts.list_users(db, OPERATOR, query="_")] == ["a_b"]


def test_what_admins_do_is_in_the_audit_log(db) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    accounts.make_user(db, root, "ada", role=Role.PARTICIPANT, now=NOW)
    accounts.change(db, root, "ada", role=Role.CREATOR, entry=HERE, now=NOW)
    accounts.ban(db, root, "ada", reason="spam", now=NOW)
    accounts.unban(db, OPERATOR, "ada", now=NOW)
    entries = audit_log.entries(db, root, target="user:ada")
    assert [(each.actor, each.action) for each in entries] == [
        ("operator", "user.unban"),
        ("root", "user.ban"),
        ("root", "user.role"),
        ("root", "user.create"),
    ]
    assert entries[1].detail == {"reason": "spam"}
    assert entries[2].detail == {"before": "participant", "role": "creator"}
    older = audit_log.entries(db, root, before_id=entries[1].id, limit=1)
    assert [each.action for each in older] == ["user.role"]
    assert [each.action for each in audit_log.entries(db, root, action="user.ban")] == ["user.ban"]


def test_a_creator_sees_what_was_done_to_the_own_boards(db) -> None:
    board = make_board(db, creator="grace")
    make_board(db, name="other", creator="hopper")
    with db.write() as session:
        for target in ("board:double", "board:other", "user:grace"):
            stored_log.record(session, OPERATOR, "test", target, {}, NOW)
    grace = make_actor(db, "grace", Role.CREATOR)
    assert {each.target for each in audit_log.entries(db, grace, action="test")} == {f"board:{board.name}"}
    for actor in (NOBODY, make_actor(db, "ada")):
        with pytest.raises((SignInNeeded, Forbidden)):
            audit_log.entries(db, actor)
