from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import NOW, make_actor, make_board, make_submission
from kernelcup import errors
from kernelcup.app.boards.boards import list_boards
from kernelcup.app.courses.class_list import import_members
from kernelcup.app.courses.joining import join
from kernelcup.app.courses.membership import (
    HIDDEN_CODE,
    add_member,
    list_invites,
    make_invites,
    members,
    remove_member,
    revoke_invite,
)
from kernelcup.app.people.audit_log import entries
from kernelcup.domain import NOBODY, OPERATOR, Role, Visibility
from kernelcup.tables import UserRow


@pytest.fixture
def boards(db):
    for name in ("first", "second"):
        make_board(db, name=name, visibility=Visibility.CLOSED)


def sees(db, actor) -> list[str]:
    return [board.name for board in list_boards(db, actor)]


def people(db, board: str = "first") -> list[tuple[str, str | None]]:
    return [(each.user, each.pseudonym) for each in members(db, OPERATOR, board)]


def test_a_code_opens_all_its_boards(db, boards) -> None:
    ada = make_actor(db, "ada")
    assert sees(db, ada) == []
    (code,) = make_invites(db, OPERATOR, ["FIRST", "second", "first"], now=NOW).codes
    assert re.fullmatch(r"([0-9A-HJKMNP-TV-Z]{5}-){3}[0-9A-HJKMNP-TV-Z]{5}", code)
    assert join(db, ada, code.lower().replace("-", " ").replace("0", "o"), now=NOW).leaderboards == [
        "first",
        "second",
    ]
    assert sees(db, ada) == ["first", "second"]
    assert make_submission(db, user=ada, board="second").id


def test_a_code_is_for_one_user_who_may_use_it_again(db, boards) -> None:
    (code,) = make_invites(db, OPERATOR, ["first"], now=NOW).codes
    ada, eve = make_actor(db, "ada"), make_actor(db, "eve")
    assert join(db, ada, code, now=NOW).leaderboards == join(db, ada, code, now=NOW).leaderboards == ["first"]
    with pytest.raises(errors.Conflict):
        join(db, eve, code, now=NOW)
    assert sees(db, eve) == []


def test_of_two_who_join_at_once_one_wins(db, boards) -> None:
    (code,) = make_invites(db, OPERATOR, ["first"], now=NOW).codes
    actors = [make_actor(db, f"user{number}") for number in range(8)]

    def one(actor) -> bool:
        try:
            return join(db, actor, code, now=NOW).leaderboards == ["first"]
        except errors.Conflict:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, actors)) == 1
    assert len(people(db)) == 1


def test_somebody_who_was_removed_does_not_come_back_with_the_old_code(db, boards) -> None:
    ada = make_actor(db, "ada")
    (code,) = make_invites(db, OPERATOR, ["first", "second"], now=NOW).codes
    join(db, ada, code, now=NOW)
    remove_member(db, OPERATOR, "first", "ADA", now=NOW)
    assert join(db, ada, code, now=NOW).leaderboards == ["second"]
    remove_member(db, OPERATOR, "second", "ada", now=NOW)
    with pytest.raises(errors.Conflict):
        join(db, ada, code, now=NOW)
    assert sees(db, ada) == []
    with pytest.raises(errors.NotFound):
        remove_member(db, OPERATOR, "first", "ada", now=NOW)


def test_a_revoked_or_unknown_code_opens_nothing(db, boards) -> None:
    ada, bob = make_actor(db, "ada"), make_actor(db, "bob")
    used, unused = make_invites(db, OPERATOR, ["first"], count=2, now=NOW).codes
    join(db, ada, used, now=NOW)
    assert revoke_invite(db, OPERATOR, used, now=NOW).was_claimed is True
    assert revoke_invite(db, OPERATOR, unused, now=NOW).was_claimed is False
    for code in (used, unused, "", "nothing"):
        with pytest.raises(errors.NotFound):
            join(db, bob, code, now=NOW)
    assert sees(db, ada) == ["first"]


def test_nobody_and_the_banned_do_not_join(db, boards) -> None:
    (code,) = make_invites(db, OPERATOR, ["first"], now=NOW).codes
    for actor in (NOBODY, OPERATOR):
        with pytest.raises(errors.SignInNeeded):
            join(db, actor, code, now=NOW)
    eve = make_actor(db, "eve")
    with db.write() as session:
        session.get_one(UserRow, eve.user_id).banned_at = NOW
    with pytest.raises(errors.Banned):
        join(db, eve, code, now=NOW)


def test_invites_and_members_are_the_managers_business(db, boards) -> None:
    ada, eve = make_actor(db, "ada"), make_actor(db, "eve", Role.CREATOR)
    add_member(db, OPERATOR, "first", "ada", now=NOW)
    (code,) = make_invites(db, OPERATOR, ["first"], now=NOW).codes
    asks = [
        lambda who: make_invites(db, who, ["first"], now=NOW),
        lambda who: list_invites(db, who, "first"),
        lambda who: members(db, who, "first"),
        lambda who: add_member(db, who, "first", "eve", now=NOW),
        lambda who: remove_member(db, who, "first", "ada", now=NOW),
        lambda who: import_members(db, who, "first", "user\neve\n", now=NOW),
    ]
    for ask in asks:
        with pytest.raises(errors.Forbidden):
            ask(ada)
        with pytest.raises(errors.NotFound):
            ask(eve)
    for who in (ada, eve):
        with pytest.raises(errors.NotFound):
            revoke_invite(db, who, code, now=NOW)
    assert people(db) == [("ada", None)]


def test_a_code_for_boards_of_others_is_hidden(db, boards) -> None:
    make_board(db, name="hers", creator="eve", visibility=Visibility.CLOSED)
    (code,) = make_invites(db, OPERATOR, ["hers", "first"], now=NOW).codes
    eve = make_actor(db, "eve", Role.CREATOR)
    (shown,) = list_invites(db, eve, "hers")
    assert (shown.code, shown.boards) == (HIDDEN_CODE, ("hers",))
    with pytest.raises(errors.NotFound):
        revoke_invite(db, eve, code, now=NOW)
    with pytest.raises(errors.NotFound):
        make_invites(db, eve, ["hers", "first"], now=NOW)


def test_many_codes_are_made_at_once(db, boards) -> None:
    codes = make_invites(db, OPERATOR, ["first", "second"], count=500, label="class of 26", now=NOW).codes
    assert len(set(codes)) == 500
    page = list_invites(db, OPERATOR, "second", limit=3)
    assert [each.code for each in page] == sorted(codes)[:3]
    after = list_invites(db, OPERATOR, "second", after=page[-1].code, limit=1)
    assert [each.code for each in after] == sorted(codes)[3:4]
    for count in (0, 10_001):
        with pytest.raises(errors.InvalidValue):
            make_invites(db, OPERATOR, ["first"], count=count, now=NOW)
    with pytest.raises(errors.InvalidValue):
        make_invites(db, OPERATOR, [], now=NOW)


def test_a_pseudonym_comes_with_the_code_and_is_one_persons(db, boards) -> None:
    ada, bob = make_actor(db, "ada"), make_actor(db, "bob")
    codes = [make_invites(db, OPERATOR, ["first"], pseudonym="Owl", now=NOW).codes[0] for _ in range(2)]
    join(db, ada, codes[0], now=NOW)
    assert people(db) == [("ada", "Owl")]
    with pytest.raises(errors.Conflict):
        join(db, bob, codes[1], now=NOW)
    for pseudonym in ("OWL",):
        with pytest.raises(errors.Conflict):
            add_member(db, OPERATOR, "first", "bob", pseudonym=pseudonym, now=NOW)
    for pseudonym in ("", " x", "a\nb", "Participant 7", "x" * 65):
        with pytest.raises(errors.InvalidValue):
            add_member(db, OPERATOR, "first", "bob", pseudonym=pseudonym, now=NOW)
    add_member(db, OPERATOR, "first", "ada", pseudonym="Fox", now=NOW)
    assert people(db) == [("ada", "Fox")]


def test_a_class_list_makes_members_and_codes(db, boards) -> None:
    make_actor(db, "ada")
    make_actor(db, "bob")
    add_member(db, OPERATOR, "first", "bob", now=NOW)
    text = '\ufeffUser,label,pseudonym\r\nADA,,Owl\r\nbob,,\r\n\r\n,"Cyn, group 2",Fox\r\nzoe,,\r\n'
    result = import_members(db, OPERATOR, "first", text, now=NOW)
    assert (result.added, result.already) == (("ada",), ("bob",))
    assert [(each.line, each.label) for each in result.codes] == [(5, "Cyn, group 2"), (6, "zoe")]
    again = import_members(db, OPERATOR, "first", text, now=NOW)
    assert (again.added, again.already, again.codes) == ((), ("ada", "bob"), result.codes)
    assert join(db, make_actor(db, "cyn"), result.codes[0].code, now=NOW).leaderboards == ["first"]
    assert people(db) == [("ada", "Owl"), ("bob", None), ("cyn", "Fox"), ("", None)]
    assert [each.action for each in entries(db, OPERATOR, action="members.import")] == ["members.import"] * 2


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["line 1: expected a header"]),
        ("who\nada\n", ["line 1: unknown column `who`; there are user, label, name, group, pseudonym"]),
        (
            "usr,pseudonim\nada,Owl\n",
            ["line 1: unknown column `usr`, did you mean `user`?; unknown column `pseudonim`, did you mean"],
        ),
        ("user,user\nada,bob\n", ["line 1: the column `user` occurs twice"]),
        ("pseudonym\nOwl\n", ["line 1: expected a header"]),
        (
            "user,pseudonym\nada,Owl\nADA,\nbob,owl\n,Fox\nx,y,z\nzoe,participant 3\ncyn,Taken\n",
            [
                "line 3: the same user as in line 2",
                "line 4: the same pseudonym as in line 2",
                "line 5: neither user nor label",
                "line 6: 3 cells",
                "line 7: Pseudonym 'participant 3'",
                "line 8: The pseudonym 'Taken' is already taken in course 'first'",
            ],
        ),
        ('label\nok\n"never closed\n', ["line 3: "]),
    ],
)
def test_each_bad_line_is_told_and_nothing_is_stored(db, boards, text: str, problems: list[str]) -> None:
    make_actor(db, "ada")
    make_actor(db, "dan")
    add_member(db, OPERATOR, "first", "dan", pseudonym="Taken", now=NOW)
    with pytest.raises(errors.InvalidValue) as error:
        import_members(db, OPERATOR, "first", text, now=NOW)
    told = sorted(str(error.value).split("\n"))
    assert len(told) == len(problems)
    assert all(line.startswith(problem) for line, problem in zip(told, problems, strict=True)), told
    assert people(db) == [("dan", "Taken")]
    assert list_invites(db, OPERATOR, "first") == []
