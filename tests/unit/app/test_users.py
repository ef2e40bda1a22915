from __future__ import annotations

import pytest

from builders import make_actor
from kernelcup.app.people.user_names import (
    check_account_name,
    check_user_name,
    creator_here,
    ensure_user,
)
from kernelcup.domain import Role
from kernelcup.errors import InvalidValue


def test_a_user_keeps_the_name_as_it_was_first_written(db, clock) -> None:
    assert ensure_user(db, "Ada", now=clock()) == "Ada"
    assert ensure_user(db, "ada", now=clock()) == "Ada"


@pytest.mark.parametrize("name", ["ада", "Ἀδα", "Zoë-2", "名前ada", "ada_l.o-1", "a" * 64])
def test_names_of_all_languages_are_taken(name: str) -> None:
    assert check_user_name(name) == check_account_name(name) == name


def test_a_name_is_the_same_however_its_accents_are_encoded() -> None:
    assert check_user_name("Zoe\u0308") == "Zoë"


@pytest.mark.parametrize("name", ["", " ada", "ada ", "a\nb", "a\0b", "a\u202eb", "\ud800", "a" * 65])
def test_names_that_would_deceive_or_break_something_are_refused(name: str) -> None:
    with pytest.raises(InvalidValue):
        check_user_name(name)


@pytest.mark.parametrize("name", ["\u0430da", "gr\u0430ce", "\u0391da"])
def test_nobody_signs_in_under_a_name_of_mixed_alphabets(name: str) -> None:
    with pytest.raises(InvalidValue):
        check_account_name(name)


@pytest.mark.parametrize("name", ["<script>", "ada lovelace", "a&b", "a/b", "a\\b", 'a"b', "a@b"])
def test_a_name_has_letters_digits_and_three_signs(name: str) -> None:
    for check in (check_user_name, check_account_name):
        with pytest.raises(InvalidValue, match="letters, digits"):
            check(name)


@pytest.mark.parametrize(
    ("people", "owner"),
    [
        ({}, "root"),
        ({"ada": Role.ADMIN}, "ada"),
        ({"ada": Role.ADMIN, "Root": Role.PARTICIPANT}, "Root"),
        ({"ada": Role.ADMIN, "eve": Role.ADMIN}, "root"),
        ({"ada": Role.PARTICIPANT}, "root"),
    ],
)
def test_a_login_that_is_no_user_stands_for_the_only_admin(db, people, owner: str) -> None:
    for name, role in people.items():
        make_actor(db, name, role)
    assert creator_here(db, "root") == owner
