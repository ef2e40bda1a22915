"""Membership of courses: invite codes, members. A leaderboard without a course gets its own by the first of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.late_exceptions import find_user
from kernelcup.app.courses import courses
from kernelcup.app.courses.courses import CourseName
from kernelcup.app.courses.invite_codes import (
    MOST_INVITES,
    Code,
    check_free,
    check_label,
    check_pseudonym,
    new_code,
    no_invite,
    normal_code,
)
from kernelcup.app.courses.queries import courses as all_courses
from kernelcup.app.courses.queries import invites
from kernelcup.app.courses.queries import members as stored
from kernelcup.app.operation import BOARDS, Board, Given, User, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor, Scope
from kernelcup.domain.answers import Course, Invite, Member
from kernelcup.engine import Database, Session
from kernelcup.errors import InvalidValue, NotFound

HIDDEN_CODE = "?"
"""Shown instead of a code that also opens courses that the reader does not manage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCodes:
    """New invite codes."""

    codes: list[str]
    leaderboards: list[str]
    """Those that each code opens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revoked:
    """A revoked code."""

    code: str
    was_claimed: bool


Count = Annotated[int, Given(options=("--count", "-n"), least=1, most=MOST_INVITES, help="Number of codes.")]
Label = Annotated[
    str, Given(options=("--label",), help="A label, for example the person that the code is for.")
]
Pseudonym = Annotated[
    str | None,
    Given(
        options=("--pseudonym",),
        longest=64,
        help="The member's name for others on a pseudonymous leaderboard.",
    ),
]


@operation("POST", "/invites", "admin invite create", subject="rules", status=201)
def make_invites(
    db: Database,
    actor: Actor,
    boards: Annotated[
        list[str],
        Given(metavar="BOARD...", key=BOARDS, least=1, most=100, help="Leaderboards that each code opens."),
    ],
    *,
    count: Count = 1,
    now: datetime,
    label: Label = "",
    pseudonym: str | None = None,
) -> NewCodes:
    """Create codes, each of which lets one user into the leaderboards' courses.

    Args:
        actor: A manager of all the leaderboards.
        boards: Names of the leaderboards.
        count: How many codes.
        label: The person or group that they are meant for.
        pseudonym: The name that others see for the user; only with a single code.

    Raises:
        InvalidValue: There is no leaderboard, there are too many codes, or the label or pseudonym is invalid.
        Conflict: The pseudonym is taken.
    """
    if not boards:
        raise InvalidValue("Invites: expected at least one leaderboard.")
    with db.write(durable=True) as session:
        # In the order of their names: two who lock several leaderboards then do not wait for each other.
        of = {name: courses.of_board(session, actor, name, now=now) for name in sorted(boards)}
        targets = list({of[name].id: of[name] for name in boards}.values())
        return _make(session, actor, targets, count, label, pseudonym, now)


@operation("POST", "/courses/{name}/invites", "course invite", subject="courses", status=201)
def make_course_invites(
    db: Database,
    actor: Actor,
    name: CourseName,
    *,
    count: Count = 1,
    now: datetime,
    label: Label = "",
) -> NewCodes:
    """Create codes, each of which lets one user into a course. A single code with a label joins the register.

    Raises:
        InvalidValue: The label is invalid.
    """
    with db.write(durable=True) as session:
        return _make(session, actor, [courses.managed(session, name, actor)], count, label, None, now)


def _make(
    session: Session,
    actor: Actor,
    targets: list[Course],
    count: int,
    label: str,
    pseudonym: str | None,
    now: datetime,
) -> NewCodes:
    if not 1 <= count <= MOST_INVITES:
        raise InvalidValue(f"Invites: expected 1 to {MOST_INVITES:,} codes.")
    check_label(label)
    if pseudonym is not None:
        check_pseudonym(pseudonym)
        if count > 1:
            raise InvalidValue("A pseudonym belongs to one person: make a single code for it.")
        for target in targets:
            check_free(session, target, pseudonym)
    position = None
    if label and count == 1:
        position = max(stored.next_position(session, target.id) for target in targets)
    new = [
        invites.NewInvite(code=new_code(), label=label, pseudonym=pseudonym, position=position)
        for _ in range(count)
    ]
    ids = [target.id for target in targets]
    invites.insert_all(session, new, course_ids=ids, created_by=actor.user_id, now=now)
    for target in targets:
        detail = {"count": count, "label": label}
        audit_log.record(session, actor, "invites.make", f"course:{target.name}", detail, now)
    boards = [board.name for target in targets for board in courses.boards_of(session, target)]
    return NewCodes(codes=[invite.code for invite in new], leaderboards=boards)


@operation("GET", "/leaderboards/{name}/invites", "admin invite list", subject="rules")
def list_invites(
    db: Database, actor: Actor, board: Board, *, after: str | None = None, limit: int | None = None
) -> list[Invite]:
    """List the codes of a leaderboard's course and their users, sorted by code.

    A code that also opens courses that the actor does not manage is hidden.
    """
    with db.read() as session:
        course = courses.known_of_board(session, actor, board)
        return [] if course is None else _invites(session, actor, course, after, limit)


@operation("GET", "/courses/{name}/invites", "course invites", subject="courses")
def list_course_invites(
    db: Database, actor: Actor, name: CourseName, *, after: str | None = None, limit: int | None = None
) -> list[Invite]:
    """List the codes of a course and their users, sorted by code.

    A code that also opens courses that the actor does not manage is hidden.
    """
    with db.read() as session:
        return _invites(session, actor, courses.managed(session, name, actor), after, limit)


def _invites(
    session: Session, actor: Actor, course: Course, after: str | None, limit: int | None
) -> list[Invite]:
    page = invites.of_course(session, course.id, after=after, limit=limit)
    others = {name for each in page for name in each.courses} - {course.name}
    foreign = {name for name in others if not _manages(session, actor, name)}
    kept = {board.name for board in courses.boards_of(session, course)}
    return [
        each
        if foreign.isdisjoint(each.courses)
        else dataclasses.replace(
            each,
            code=HIDDEN_CODE,
            courses=(course.name,),
            boards=tuple(name for name in each.boards if name in kept),
        )
        for each in page
    ]


@operation("DELETE", "/invites/{code}", "admin invite revoke", subject="rules")
def revoke_invite(db: Database, actor: Actor, code: Code, *, now: datetime) -> Revoked:
    """Revoke a code. A user who joined with it stays a member.

    Raises:
        NotFound: The code does not exist, or opens courses that the actor does not manage.
    """
    with db.write(durable=True) as session:
        found = invites.find(session, normal_code(code))
        if found is None or not all(_manages(session, actor, name) for name in found.courses):
            raise no_invite()
        access.require(actor, Scope.MANAGE)
        invites.remove(session, found.code)
        for name in found.courses:
            detail = {"label": found.label, "claimed_by": found.claimed_by}
            audit_log.record(session, actor, "invites.revoke", f"course:{name}", detail, now)
    return Revoked(code=code, was_claimed=found.claimed_at is not None)


@operation("GET", "/leaderboards/{name}/members", "admin members list", subject="rules")
def members(db: Database, actor: Actor, board: Board) -> list[Member]:
    """List the register of a leaderboard's course, also those who have not joined. Only its managers may see it."""
    with db.read() as session:
        course = courses.known_of_board(session, actor, board)
        return [] if course is None else [each for _, each in stored.register(session, course.id)]


@operation("GET", "/courses/{name}/members", "course members", subject="courses")
def course_members(db: Database, actor: Actor, name: CourseName) -> list[Member]:
    """List the register of a course, also those who have not joined. Only its managers may see it."""
    with db.read() as session:
        course = courses.managed(session, name, actor)
        return [each for _, each in stored.register(session, course.id)]


@operation("PUT", "/leaderboards/{name}/members/{user}", "admin members add", subject="rules")
def add_member(
    db: Database, actor: Actor, board: Board, user: User, *, now: datetime, pseudonym: Pseudonym = None
) -> None:
    """Make a user a member of a leaderboard's course, or give a member another pseudonym."""
    with db.write(durable=True) as session:
        course = courses.of_board(session, actor, board, now=now)
        _add(session, actor, course, user, pseudonym, now)


@operation("PUT", "/courses/{name}/members/{user}", "course add-member", subject="courses")
def add_course_member(
    db: Database, actor: Actor, name: CourseName, user: User, *, now: datetime, pseudonym: Pseudonym = None
) -> None:
    """Make a user a member of a course, or give a member another pseudonym."""
    with db.write(durable=True) as session:
        _add(session, actor, courses.managed(session, name, actor), user, pseudonym, now)


def _add(
    session: Session, actor: Actor, course: Course, user: str, pseudonym: str | None, now: datetime
) -> None:
    if pseudonym is not None:
        check_pseudonym(pseudonym)
    user_id, name = find_user(session, user)
    check_free(session, course, pseudonym, besides=user_id)
    stored.add(session, course_id=course.id, user_id=user_id, now=now, pseudonym=pseudonym)
    detail = {"user": name, "pseudonym": pseudonym}
    audit_log.record(session, actor, "members.add", f"course:{course.name}", detail, now)


@operation("DELETE", "/leaderboards/{name}/members/{user}", "admin members remove", subject="rules")
def remove_member(db: Database, actor: Actor, board: Board, user: User, *, now: datetime) -> None:
    """End a membership of a leaderboard's course; the user's submissions stay.

    Raises:
        NotFound: The user is not a member.
    """
    with db.write(durable=True) as session:
        course = courses.known_of_board(session, actor, board)
        if course is None:
            raise NotFound(f"{user} is not a member of leaderboard {board!r}.")
        _remove(session, actor, course, user, now)


@operation("DELETE", "/courses/{name}/members/{user}", "course remove-member", subject="courses")
def remove_course_member(db: Database, actor: Actor, name: CourseName, user: User, *, now: datetime) -> None:
    """End a membership of a course; the user's submissions stay.

    Raises:
        NotFound: The user is not a member.
    """
    with db.write(durable=True) as session:
        _remove(session, actor, courses.managed(session, name, actor), user, now)


def _remove(session: Session, actor: Actor, course: Course, user: str, now: datetime) -> None:
    user_id, name = find_user(session, user)
    if not stored.remove(session, course_id=course.id, user_id=user_id):
        raise NotFound(f"{name} is not a member of course {course.name!r}.")
    audit_log.record(session, actor, "members.remove", f"course:{course.name}", {"user": name}, now)


def _manages(session: Session, actor: Actor, name: str) -> bool:
    course = all_courses.find(session, name)
    return course is not None and courses.manages(actor, course)
