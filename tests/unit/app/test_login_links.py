"""Sign-in links that admins make."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from builders import NOW, make_actor, make_board
from kernelcup.app.access import HERE
from kernelcup.app.courses import class_list, joining, membership
from kernelcup.app.people import accounts
from kernelcup.app.people.audit_log import entries
from kernelcup.app.people.login_links import LoginLink, make_links, open_links, revoke_links, use_login_link
from kernelcup.domain import NOBODY, OPERATOR, Role, Scope, Visibility
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound, ScopeMissing, SignInNeeded

HOUR = timedelta(hours=1)


def secret_of(link: LoginLink) -> str:
    return link.url.rpartition("/")[2]


def test_a_class_gets_one_link_each_and_new_names_become_participants(db) -> None:
    ada = make_actor(db, "ada")
    made = make_links(db, OPERATOR, ["ada", " bob ", "ADA"], create=True, entry=HERE, now=NOW)
    assert [(each.user, each.is_new_user, each.expires_at) for each in made] == [
        ("ada", False, NOW + 24 * HOUR),
        ("bob", True, NOW + 24 * HOUR),
    ]
    assert accounts.get_user(db, OPERATOR, "bob").role is Role.PARTICIPANT
    assert use_login_link(db, secret_of(made[0]), NOW + 23 * HOUR) == ada.user_id


def test_names_without_an_account_are_all_named_and_nothing_is_made(db) -> None:
    make_actor(db, "ada")
    with pytest.raises(InvalidValue) as told:
        make_links(db, OPERATOR, ["ada", "bob", "eve"], entry=HERE, now=NOW)
    assert str(told.value).splitlines() == ["There is no user 'bob'.", "There is no user 'eve'."]
    with pytest.raises(InvalidValue, match="expected letters, digits"):
        make_links(db, OPERATOR, ["carol", "a/b"], create=True, entry=HERE, now=NOW)
    assert open_links(db, OPERATOR, now=NOW) == []
    assert [each.name for each in accounts.list_users(db, OPERATOR)] == ["ada"]


def test_a_new_link_ends_the_earlier_one(db) -> None:
    make_actor(db, "ada")
    first, second = (secret_of(*make_links(db, OPERATOR, ["ada"], entry=HERE, now=NOW)) for _ in range(2))
    with pytest.raises(NotFound):
        use_login_link(db, first, NOW)
    use_login_link(db, second, NOW)


def test_a_link_of_staff_is_shorter_than_was_asked(db) -> None:
    for name, role in (("root", Role.ADMIN), ("grace", Role.CREATOR)):
        make_actor(db, name, role)
    made = make_links(db, OPERATOR, ["root", "grace"], entry=HERE, now=NOW)
    assert {each.expires_at for each in made} == {NOW + timedelta(minutes=15)}


def test_a_revoked_link_works_no_more_and_there_is_none_to_revoke(db) -> None:
    make_actor(db, "ada")
    (link,) = make_links(db, OPERATOR, ["ada"], entry=HERE, now=NOW)
    assert [each.user for each in open_links(db, OPERATOR, now=NOW)] == ["ada"]
    revoke_links(db, OPERATOR, "ADA", now=NOW)
    for used in (
        lambda: use_login_link(db, secret_of(link), NOW),
        lambda: revoke_links(db, OPERATOR, "ada", now=NOW),
    ):
        with pytest.raises(NotFound):
            used()
    assert open_links(db, OPERATOR, now=NOW) == []


def test_what_is_done_with_links_is_in_the_log_without_their_secrets(db) -> None:
    make_actor(db, "ada")
    (link,) = make_links(db, OPERATOR, ["ada"], entry=HERE, now=NOW)
    use_login_link(db, secret_of(link), NOW)
    make_links(db, OPERATOR, ["ada"], entry=HERE, now=NOW)
    revoke_links(db, OPERATOR, "ada", now=NOW)
    found = entries(db, OPERATOR, target="user:ada", limit=10)[::-1]
    assert [(each.actor, each.action) for each in found] == [
        ("operator", "user.link"),
        ("ada", "user.link_use"),
        ("operator", "user.link"),
        ("operator", "user.link_revoke"),
    ]
    assert secret_of(link) not in repr(found) + repr(link)


def test_only_admins_with_the_scope_make_see_and_revoke_links(db) -> None:
    ada, root = make_actor(db, "ada", Role.CREATOR), make_actor(db, "root", Role.ADMIN)
    weak = dataclasses.replace(root, scopes=frozenset(Scope) - {Scope.ADMIN})
    for actor in (ada, weak, NOBODY):
        for tried in (
            lambda actor=actor: make_links(db, actor, ["root"], entry=HERE, now=NOW),
            lambda actor=actor: open_links(db, actor, now=NOW),
            lambda actor=actor: revoke_links(db, actor, "root", now=NOW),
        ):
            with pytest.raises((Forbidden, ScopeMissing, SignInNeeded)):
                tried()


@pytest.mark.parametrize("hours", [0, 73])
def test_a_link_lasts_three_days_at_most(db, hours) -> None:
    make_actor(db, "ada")
    with pytest.raises(InvalidValue, match="at most 72 hours"):
        make_links(db, OPERATOR, ["ada"], entry=HERE, now=NOW, hours=hours)


def test_a_list_is_names_or_a_class_list() -> None:
    assert class_list.names_in("ada\n\n bob \n") == ["ada", "bob"]
    assert class_list.names_in("\ufeffUser,pseudonym\nada,fox\nbob,\n") == ["ada", "bob"]
    with pytest.raises(InvalidValue) as told:
        class_list.names_in("label,user\nAda L.,ada\nCarol M.,\n,,x\n")
    assert str(told.value).splitlines() == [
        "line 4: 3 cells, where the header has 2",
        "line 3: no name in the column `user`",
    ]


def test_an_invite_makes_an_account_once(db) -> None:
    make_board(db, name="week1", visibility=Visibility.CLOSED)
    made = class_list.import_members(db, OPERATOR, "week1", "label,pseudonym\nAda L.,fox\n", now=NOW)
    code = made.codes[0].code
    with pytest.raises(InvalidValue):
        joining.join_as_new(db, code, "a/b", now=NOW)
    user_id, joined = joining.join_as_new(db, code.lower(), "ada", now=NOW)
    assert (accounts.get_user(db, OPERATOR, "ada").id, joined.leaderboards) == (user_id, ["week1"])
    assert [(each.user, each.pseudonym) for each in membership.members(db, OPERATOR, "week1")] == [
        ("ada", "fox")
    ]
    with pytest.raises(Conflict, match="used already"):
        joining.join_as_new(db, code, "eve", now=NOW)
    (other,) = membership.make_invites(db, OPERATOR, ["week1"], now=NOW).codes
    with pytest.raises(Conflict, match="taken"):
        joining.join_as_new(db, other, "ADA", now=NOW)
    with pytest.raises(NotFound):
        joining.join_as_new(db, "AAAA", "eve", now=NOW)
    assert [each.name for each in accounts.list_users(db, OPERATOR)] == ["grace", "ada"]


def test_a_list_of_names_ends_before_they_are_looked_up() -> None:
    names = [f"n{number}" for number in range(10_000)]
    assert class_list.names_in("\n".join(names)) == names
    with pytest.raises(InvalidValue, match=r"^line 10002: at most 10,000 people at once$"):
        class_list.names_in("\n".join([*names, "one more"]))


def test_unknown_columns_are_named_up_to_ten() -> None:
    columns = ",".join(["user", "nme", *(f"c{number}" for number in range(200_000))])
    with pytest.raises(InvalidValue) as refused:
        class_list.names_in(columns)
    text = str(refused.value)
    assert text.startswith("line 1: unknown column `nme`, did you mean `name`?; unknown column `c0`;")
    assert text.endswith(
        "unknown column `c8`; and 199,991 more; there are user, label, name, group, pseudonym"
    )
