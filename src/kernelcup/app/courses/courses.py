"""Courses: their leaderboards and managers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import find_managed
from kernelcup.app.boards.queries import boards as all_boards
from kernelcup.app.courses.queries import courses, members
from kernelcup.app.operation import BOARD, BOARDS, Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor, Leaderboard, Role, Scope
from kernelcup.domain.answers import Course
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound
from kernelcup.names import LONGEST_NAME, check_name

CourseName = Annotated[str, Given(metavar="COURSE", help="Name of the course.")]
BoardOfCourse = Annotated[str, Given(metavar="BOARD", help="Name of the leaderboard.", key=BOARD)]


@dataclass(frozen=True, kw_only=True, slots=True)
class CourseView:
    """A course as a member or a manager sees it."""

    name: str
    creator: str
    created_at: datetime
    leaderboards: list[str]
    """By deadline."""
    people: int
    """In the register."""
    joined: int
    managed: bool
    """Whether the viewer manages it."""


@operation("POST", "/courses", "course create", subject="courses", status=201)
def create(
    db: Database,
    actor: Actor,
    name: Annotated[
        str, Given(metavar="NAME", longest=LONGEST_NAME, help="Letters, digits, '-', '_' and '.'.")
    ],
    boards: Annotated[
        list[str] | None,
        Given(options=("--board",), key=BOARDS, most=100, help="A leaderboard of it; may be repeated."),
    ] = None,
    *,
    now: datetime,
) -> CourseView:
    """Create a course, whose register is that of all its leaderboards.

    Raises:
        InvalidValue: The name is invalid.
        Conflict: It is taken, or a leaderboard belongs to another course.
    """
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    check_name("Course", name)
    with db.write(durable=True) as session:
        targets = [_lock(session, each, actor) for each in dict.fromkeys(boards or ())]
        if actor.user_id is None and not targets:
            raise InvalidValue(
                "The creator of a course needs an account: use --server, or name a leaderboard."
            )
        creator_id = targets[0].creator_id if actor.user_id is None else actor.user_id
        course = courses.get(session, courses.insert(session, name=name, creator_id=creator_id, now=now))
        audit_log.record(session, actor, "course.create", f"course:{course.name}", {}, now)
        for board in targets:
            _add(session, actor, course, board, now)
        return _view(session, course, actor)


@operation("GET", "/courses", "course list", subject="courses")
def list_courses(db: Database, viewer: Actor) -> list[CourseView]:
    """List the courses that you manage or belong to, oldest first."""
    with db.read() as session:
        found = courses.seen_by(session, viewer.user_id, sees_all=viewer.role is Role.ADMIN)
        return [_view(session, each, viewer) for each in found]


@operation("GET", "/courses/{name}", "course show", subject="courses")
def show(db: Database, viewer: Actor, name: CourseName) -> CourseView:
    """Show a course to its members and managers."""
    with db.read() as session:
        return _view(session, find(session, name, viewer), viewer)


@operation("PATCH", "/courses/{name}", "course update", subject="courses")
def rename(
    db: Database,
    actor: Actor,
    name: CourseName,
    new_name: Annotated[str, Given(options=("--name",), longest=LONGEST_NAME, help="Another name.")],
    *,
    now: datetime,
) -> CourseView:
    """Give a course another name. Raise ``Conflict`` if it is taken."""
    check_name("Course", new_name)
    with db.write(durable=True) as session:
        course = managed(session, name, actor)
        courses.change(session, course.id, name=new_name, rules=course.rules, of_board=False)
        audit_log.record(session, actor, "course.rename", f"course:{new_name}", {"before": course.name}, now)
        return _view(session, courses.get(session, course.id), actor)


@operation("DELETE", "/courses/{name}", "course delete", subject="courses")
def delete(
    db: Database,
    actor: Actor,
    name: CourseName,
    confirm: Annotated[str, Given(options=("--confirm",), help="The course's name, as confirmation.")],
    *,
    now: datetime,
) -> None:
    """Delete a course with its register, invites and rules. Its leaderboards and results stay.

    Raises:
        InvalidValue: The name was not confirmed; nothing was deleted.
    """
    with db.write(durable=True) as session:
        course = managed(session, name, actor)
        if confirm != course.name:
            raise InvalidValue(f"To delete it, confirm with its name {course.name!r}. Nothing was deleted.")
        courses.remove(session, course.id)
        audit_log.record(session, actor, "course.delete", f"course:{course.name}", {}, now)


@operation("PUT", "/courses/{name}/leaderboards/{board}", "course add", subject="courses")
def add_board(
    db: Database, actor: Actor, name: CourseName, board: BoardOfCourse, *, now: datetime
) -> CourseView:
    """Add a leaderboard to a course. Raise ``Conflict`` if it belongs to another one."""
    with db.write(durable=True) as session:
        course = managed(session, name, actor)
        _add(session, actor, course, _lock(session, board, actor), now)
        return _view(session, courses.get(session, course.id), actor)


@operation("DELETE", "/courses/{name}/leaderboards/{board}", "course remove", subject="courses")
def remove_board(
    db: Database, actor: Actor, name: CourseName, board: BoardOfCourse, *, now: datetime
) -> CourseView:
    """Take a leaderboard out of a course: if it is members-only, its members do not see it any more.

    Raises:
        NotFound: It is not in the course.
    """
    with db.write(durable=True) as session:
        course = managed(session, name, actor)
        target = _lock(session, board, actor)
        if target.course_id != course.id:
            raise NotFound(f"Leaderboard {target.name!r} is not in course {course.name!r}.")
        rules = {key: text for key, text in course.rules.items() if key != str(target.id)}
        courses.put_board(session, target.id, None)
        courses.change(session, course.id, name=course.name, rules=rules, of_board=False)
        detail = {"leaderboard": target.name}
        audit_log.record(session, actor, "course.remove", f"course:{course.name}", detail, now)
        return _view(session, courses.get(session, course.id), actor)


def open_for(db: Database, actor: Actor, board: str, *, now: datetime) -> str:
    """Return the name of a leaderboard's course; a leaderboard without one gets its own."""
    with db.write(durable=True) as session:
        return of_board(session, actor, board, now=now).name


def find(session: Session, name: str, viewer: Actor) -> Course:
    """Return a course that the viewer manages or belongs to. Raise ``NotFound``."""
    course = courses.find(session, name)
    if course is None or not (manages(viewer, course) or _belongs(session, course, viewer)):
        raise NotFound(f"There is no course {name!r}.")
    return course


def managed(session: Session, name: str, actor: Actor) -> Course:
    """Return a course that the actor may change.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it but may not change it.
    """
    course = find(session, name, actor)
    check_manages(actor, course)
    return course


def of_board(session: Session, actor: Actor, board: str, *, now: datetime) -> Course:
    """Return the course of a leaderboard; one without gets its own. Raise unless the actor manages both."""
    target = _lock(session, board, actor)
    course = courses.of_board(session, target, now)
    check_manages(actor, course)
    return course


def known_of_board(session: Session, actor: Actor, board: str) -> Course | None:
    """Return the course of a leaderboard, None if it has none yet. Raise unless the actor manages both."""
    target = find_managed(session, board, actor)
    if target.course_id is None:
        return None
    course = courses.get(session, target.course_id)
    check_manages(actor, course)
    return course


def manages(actor: Actor, course: Course) -> bool:
    """Return whether the actor may change a course: its creator and admins may."""
    if actor.role is Role.ADMIN:
        return True
    return access.has_role(actor, Role.CREATOR) and actor.user_id == course.creator_id


def check_manages(actor: Actor, course: Course) -> None:
    """Raise ``SignInNeeded``, ``Forbidden`` or ``ScopeMissing`` unless the actor may change a course."""
    access.require(actor, Scope.MANAGE)
    if not manages(actor, course):
        raise Forbidden(
            f"Course {course.name!r} belongs to {course.creator}; only they and admins change it."
        )


def boards_of(session: Session, course: Course) -> list[Leaderboard]:
    """Return the leaderboards of a course, by deadline."""
    ids = courses.board_ids(session, course.id)
    known = all_boards.some(session, ids)
    return [known[each] for each in ids]


def _belongs(session: Session, course: Course, viewer: Actor) -> bool:
    return viewer.user_id is not None and members.is_member(session, course.id, viewer.user_id)


def _lock(session: Session, board: str, actor: Actor) -> Leaderboard:
    all_boards.lock(session, board)
    return find_managed(session, board, actor)


def _add(session: Session, actor: Actor, course: Course, board: Leaderboard, now: datetime) -> None:
    if board.course_id is not None and board.course_id != course.id:
        other = courses.get(session, board.course_id)
        told = f"Leaderboard {board.name!r} belongs to course {other.name!r}"
        if not other.of_board or members.register(session, other.id):
            raise Conflict(
                f"{told}; remove it there first: kernelcup course remove {other.name} {board.name}"
            )
        courses.remove(session, other.id)
    courses.put_board(session, board.id, course.id)
    courses.change(session, course.id, name=course.name, rules=course.rules, of_board=False)
    detail = {"leaderboard": board.name}
    audit_log.record(session, actor, "course.add", f"course:{course.name}", detail, now)


def _view(session: Session, course: Course, viewer: Actor) -> CourseView:
    people = members.register(session, course.id)
    return CourseView(
        name=course.name,
        creator=course.creator,
        created_at=course.created_at,
        leaderboards=[board.name for board in boards_of(session, course)],
        people=len(people),
        joined=sum(user_id is not None for user_id, _ in people),
        managed=manages(viewer, course),
    )
