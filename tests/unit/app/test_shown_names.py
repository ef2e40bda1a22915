"""A user's shown name: what it may be, whose it is, and where it comes from."""

from __future__ import annotations

import pytest

from builders import NOW, make_actor
from kernelcup.app.access import HERE
from kernelcup.app.people import accounts, audit_log
from kernelcup.app.people.queries import users
from kernelcup.app.people.user_names import as_shown_name, check_shown_name, ensure_user
from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import Banned, Conflict, Forbidden, InvalidValue, NotFound, ScopeMissing

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"


def shown(db: Database, name: str) -> str:
    """Return the shown name of a user."""
    return accounts.get_user(db, OPERATOR, name).shown_name


def show(db: Database, actor: Actor, text: str) -> str:
    """Have a user take a shown name."""
    return accounts.set_shown_name(db, actor, actor.name, text, now=NOW).shown_name


@pytest.mark.parametrize(
    "name",
    [
        "Ada Lovelace",
        "@everyone",
        "**x**",
        "<script>",
        f"The {FAMILY}",
        "\u2764\ufe0f Ada",
        "\u65e5\u672c \u592a\u90ce",
        "\u05d0\u05d3\u05d4",
        "x" * 32,
    ],
)
def test_a_shown_name_has_spaces_signs_and_emoji(name) -> None:
    assert check_shown_name(name) == name
    assert as_shown_name(name) == name


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("A\u202eda", "Ada"),  # writes backwards
        ("A\u2067da", "Ada"),
        ("a\u200db", "ab"),  # joins nothing
        ("\u200bAda\ufe0f", "Ada"),
        ("Ada\u3164", "Ada"),
        ("Ada\x1b[31m", "Ada[31m"),
        (" Ada  L. ", "Ada L."),
        ("Ada\nL.", "Ada L."),
        ("Ada\u00a0L.", "Ada L."),
        ("y" * 33, "y" * 32),
        (f"{'y' * 30}{FAMILY}", f"{'y' * 30}\U0001f468"),
        ("\u0301", ""),  # a mark alone would stand on the letter before it
        ("\u0430da", ""),  # of two alphabets
        ("\U0001d4d0da \u0430", ""),
        ("Me", ""),
        ("operator", ""),
        ("KernelCup", ""),  # what a rule does stands under this name
        ("Deleted-12", ""),
        ("\u2800", ""),
        ("\ud800", ""),
        ("", ""),
    ],
)
def test_what_a_shown_name_cannot_be_is_refused_and_left_out_of_one_from_elsewhere(name, instead) -> None:
    with pytest.raises(InvalidValue):
        check_shown_name(name)
    assert as_shown_name(name) == instead


def test_a_user_sets_and_clears_it_and_the_log_says_so(db) -> None:
    ada = make_actor(db, "ada")
    assert show(db, ada, "Ada \U0001f40d") == shown(db, "ada") == "Ada \U0001f40d"
    assert show(db, ada, "") == shown(db, "ada") == ""
    entries = audit_log.entries(db, OPERATOR, target="user:ada")
    assert [(each.action, each.detail) for each in entries] == [
        ("user.shown_name", {"before": "Ada \U0001f40d", "shown_name": ""}),
        ("user.shown_name", {"before": "", "shown_name": "Ada \U0001f40d"}),
    ]


def test_admins_clear_it_and_others_do_not(db) -> None:
    ada, eve, root = make_actor(db, "ada"), make_actor(db, "eve"), make_actor(db, "root", Role.ADMIN)
    show(db, ada, "rude words")
    with pytest.raises(Forbidden):
        accounts.set_shown_name(db, eve, "ada", now=NOW)
    assert accounts.set_shown_name(db, root, "ada", now=NOW).shown_name == ""
    with pytest.raises(NotFound):
        accounts.set_shown_name(db, root, "bob", now=NOW)
    accounts.ban(db, root, "ada", reason="rude", now=NOW)
    with pytest.raises(Banned):
        show(db, ada, "rude words")


def test_a_token_that_only_reads_sets_none(db) -> None:
    ada = make_actor(db, "ada")
    reader = Actor(user_id=ada.user_id, name="ada", role=ada.role, scopes=frozenset({Scope.READ}))
    with pytest.raises(ScopeMissing):
        show(db, reader, "Ada L.")


@pytest.mark.parametrize("name", ["bob", "BOB", "\U0001d4d1ob", "Bob the \u2764", "Bob the \u2764\ufe0f"])
def test_no_one_shows_the_name_of_another(db, name) -> None:
    show(db, make_actor(db, "bob"), "Bob the \u2764\ufe0f")
    ada = make_actor(db, "ada")
    with pytest.raises(Conflict):
        show(db, ada, name)
    assert shown(db, "ada") == ""
    assert show(db, ada, "ADA") == "ADA"  # one's own account's


def test_no_account_takes_a_name_that_another_shows(db) -> None:
    ada, eve = make_actor(db, "ada"), make_actor(db, "eve")
    show(db, ada, "Countess")
    with pytest.raises(Conflict):
        accounts.change(db, eve, "eve", new_name="countess", entry=HERE, now=NOW)
    with pytest.raises(Conflict):
        accounts.make_user(db, OPERATOR, "countess", now=NOW)
    accounts.sign_in(db, provider="github", subject="1", login="countess", now=NOW)
    assert accounts.get_user(db, OPERATOR, "countess-2").identities[0].login == "countess"
    assert accounts.change(db, ada, "ada", new_name="countess", entry=HERE, now=NOW).name == "countess"


def test_an_account_that_comes_at_the_same_moment_keeps_its_name_to_itself(db) -> None:
    show(db, make_actor(db, "ada"), "Countess")
    ensure_user(db, "countess", now=NOW)  # looks at no shown names, as who could not see them yet
    assert shown(db, "ada") == ""
    with db.read() as session:
        ids = [user.id for user in accounts.list_users(db, OPERATOR)]
        assert users.shown_names(session, ids) == {}


def test_the_first_sign_in_brings_the_display_name(db) -> None:
    def sign_in(subject: str, login: str, display_name: str, **more: Actor) -> str:
        accounts.sign_in(
            db,
            provider="discord",
            subject=subject,
            login=login,
            display=display_name,
            now=NOW,
            **more,
        )
        return shown(db, more["actor"].name if more else login)

    assert sign_in("1", "ada", "Ada \u202e Lovelace") == "Ada Lovelace"
    assert sign_in("2", "bob", "ada lovelace") == ""  # another's
    assert sign_in("3", "joe", "joe") == ""
    grace = make_actor(db, "grace")
    assert sign_in("4", "hopper", "Amazing Grace", actor=grace) == "Amazing Grace"
    kim = make_actor(db, "kim")
    show(db, kim, "Kim K.")
    assert sign_in("5", "kim_k", "Someone Else", actor=kim) == "Kim K."


def test_a_name_that_was_cleared_does_not_come_back_with_the_next_sign_in(db) -> None:
    known = {"provider": "discord", "subject": "1", "login": "ada", "display": "rude words", "now": NOW}
    accounts.sign_in(db, **known)
    accounts.set_shown_name(db, OPERATOR, "ada", now=NOW)
    accounts.sign_in(db, **known)
    assert shown(db, "ada") == ""
