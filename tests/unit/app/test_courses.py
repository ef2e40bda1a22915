"""Courses: one register and one way in for several leaderboards."""

from __future__ import annotations

import pytest

from builders import NOW, make_actor, make_board
from kernelcup.app.boards import boards as all_boards
from kernelcup.app.boards import managing
from kernelcup.app.boards.boards import list_boards
from kernelcup.app.courses import courses
from kernelcup.app.courses.class_list import import_course_members
from kernelcup.app.courses.joining import join
from kernelcup.app.courses.membership import (
    add_member,
    course_members,
    list_invites,
    make_course_invites,
    members,
)
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound

REGISTER = "label,name,group,user\n1003,Carol M.,B,\n1001,Ada L.,A,ada\n1002,Bob,A,\n"


@pytest.fixture
def teacher(db):
    teacher = make_actor(db, "grace", Role.CREATOR)
    for name in ("week1", "week2"):
        make_board(db, name=name, creator="grace", visibility=Visibility.CLOSED)
    courses.create(db, teacher, "gpu", ["week1", "week2"], now=NOW)
    return teacher


def people(db, teacher) -> list[tuple[str, str, str, str]]:
    return [(each.user, each.label, each.name, each.group) for each in course_members(db, teacher, "gpu")]


def test_a_person_joins_once_for_all_boards_and_keeps_the_label(db, teacher) -> None:
    make_actor(db, "ada")
    made = import_course_members(db, teacher, "gpu", REGISTER, now=NOW)
    carol = make_actor(db, "carol")
    joined = join(db, carol, made.codes[0].code, now=NOW)
    assert (joined.courses, joined.leaderboards) == (["gpu"], ["week1", "week2"])
    assert [board.name for board in list_boards(db, carol)] == ["week1", "week2"]
    expected = [("carol", "1003", "Carol M.", "B"), ("ada", "1001", "Ada L.", "A"), ("", "1002", "Bob", "A")]
    assert people(db, teacher) == expected
    assert [each.label for each in members(db, teacher, "week2")] == ["1003", "1001", "1002"]


def test_a_register_that_is_imported_again_gives_the_new_order_and_no_new_codes(db, teacher) -> None:
    make_actor(db, "ada")
    made = import_course_members(db, teacher, "gpu", REGISTER, now=NOW)
    join(db, make_actor(db, "carol"), made.codes[0].code, now=NOW)
    bob = make_actor(db, "bob")
    add_member(db, teacher, "week1", "dan" if make_actor(db, "dan") else "", now=NOW)
    again = import_course_members(
        db, teacher, "gpu", "user,label,name\n,1001,Ada Lovelace\nbob,1002,Bob\n,1003,\n", now=NOW
    )
    assert (again.added, again.already, again.codes) == (("bob",), ("ada", "carol"), ())
    assert people(db, teacher) == [
        ("ada", "1001", "Ada Lovelace", "A"),
        ("bob", "1002", "Bob", ""),
        ("carol", "1003", "Carol M.", "B"),
        ("dan", "", "", ""),
    ]
    # Names for sign-in links change no order.
    import_course_members(db, teacher, "gpu", "user\ncarol\n", now=NOW)
    assert [each[0] for each in people(db, teacher)] == ["ada", "bob", "carol", "dan"]
    assert courses.show(db, bob, "gpu").managed is False


def test_a_single_code_with_a_label_is_a_line_of_the_register(db, teacher) -> None:
    make_course_invites(db, teacher, "gpu", label="1009", now=NOW)
    make_course_invites(db, teacher, "gpu", count=2, label="autumn", now=NOW)
    assert people(db, teacher) == [("", "1009", "", "")]


def test_a_board_gets_a_course_of_its_own_and_takes_it_along(db) -> None:
    make_actor(db, "ada")
    make_board(db, name="alone", visibility=Visibility.CLOSED)
    add_member(db, OPERATOR, "alone", "ada", now=NOW)
    managing.rename_board(db, OPERATOR, "alone", "single", now=NOW)
    assert [(each.name, each.leaderboards) for each in courses.list_courses(db, OPERATOR)] == [
        ("single", ["single"])
    ]
    all_boards.delete_board(db, "single", OPERATOR, confirm="single", now=NOW)
    assert courses.list_courses(db, OPERATOR) == []


def test_a_board_belongs_to_one_course_at_most(db, teacher) -> None:
    courses.create(db, teacher, "other", now=NOW)
    with pytest.raises(Conflict, match="course remove gpu week1"):
        courses.add_board(db, teacher, "other", "week1", now=NOW)
    assert courses.remove_board(db, teacher, "gpu", "week1", now=NOW).leaderboards == ["week2"]
    assert courses.add_board(db, teacher, "other", "week1", now=NOW).leaderboards == ["week1"]


def test_a_deleted_course_leaves_its_boards(db, teacher) -> None:
    with pytest.raises(InvalidValue, match="Nothing was deleted"):
        courses.delete(db, teacher, "gpu", "week1", now=NOW)
    make_course_invites(db, teacher, "gpu", now=NOW)
    courses.delete(db, teacher, "GPU", "gpu", now=NOW)
    assert [board.course for board in list_boards(db, teacher)] == [None, None]
    assert list_invites(db, teacher, "week1") == []


def test_a_course_is_its_managers_and_members_business(db, teacher) -> None:
    ada, eve = make_actor(db, "ada"), make_actor(db, "eve", Role.CREATOR)
    make_board(db, name="hers", creator="eve")
    import_course_members(db, teacher, "gpu", "user\nada\n", now=NOW)
    assert [each.name for each in courses.list_courses(db, ada)] == ["gpu"]
    assert courses.list_courses(db, eve) == []
    for ask in (
        lambda who: courses.rename(db, who, "gpu", "mine", now=NOW),
        lambda who: course_members(db, who, "gpu"),
        lambda who: make_course_invites(db, who, "gpu", now=NOW),
        lambda who: courses.add_board(db, who, "gpu", "hers", now=NOW),
    ):
        with pytest.raises(Forbidden):
            ask(ada)
        with pytest.raises(NotFound):
            ask(eve)
    # A board of another creator in the course: its creator does not open the course to others.
    courses.add_board(db, OPERATOR, "gpu", "hers", now=NOW)
    with pytest.raises(Forbidden, match="belongs to grace"):
        add_member(db, eve, "hers", "eve", now=NOW)
