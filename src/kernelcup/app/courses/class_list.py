"""Import a class from a CSV file: people with an account become members, all others get an invite code each."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app.courses.courses import CourseName, managed, of_board
from kernelcup.app.courses.invite_codes import (
    MOST_INVITES,
    check_free,
    check_label,
    check_pseudonym,
    new_code,
)
from kernelcup.app.courses.queries import invites, members
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.clean_text import MOST_FAULTS, more
from kernelcup.domain import Actor
from kernelcup.domain.answers import Course, Person
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.tasks.manifest.validation import did_you_mean

COLUMNS = ("user", "label", "name", "group", "pseudonym")


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalCode:
    """The invite code for one line of the list."""

    line: int
    label: str
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportResult:
    """The result of importing a list."""

    added: tuple[str, ...]
    """Users who became members."""
    already: tuple[str, ...]
    """Users who already were members."""
    codes: tuple[PersonalCode, ...]
    """For people without an account; an unused code of an earlier import is given again."""
    without_account: tuple[str, ...] = ()
    """Names in the column ``user`` without an account; they got a code, and may be misspelt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    number: int
    position: int
    user: str
    person: Person

    @property
    def shown(self) -> str:
        return self.person.label or self.user


Csv = Annotated[
    str,
    Given(
        key="csv",
        longest=1_000_000,
        help="CSV with a header: `user` or `label` or both, and `name`, `group`, `pseudonym`.",
    ),
]


@operation("POST", "/leaderboards/{name}/members/import", subject="rules")
def import_members(db: Database, actor: Actor, board: Board, csv_text: Csv, *, now: datetime) -> ImportResult:
    """Make everyone on a class list a member of a leaderboard's course, all or none.

    People without an account get a code each.

    Raises:
        InvalidValue: The list has bad lines; the text has each of them, with its number.
    """
    with db.write(durable=True) as session:
        return import_into(session, actor, of_board(session, actor, board, now=now), csv_text, now=now)


@operation("POST", "/courses/{name}/members/import", subject="courses")
def import_course_members(
    db: Database, actor: Actor, name: CourseName, csv_text: Csv, *, now: datetime
) -> ImportResult:
    """Make everyone on a class list a member of a course, all or none; people without an account get a code each.

    Raises:
        InvalidValue: The list has bad lines; the text has each of them, with its number.
    """
    with db.write(durable=True) as session:
        return import_into(session, actor, managed(session, name, actor), csv_text, now=now)


def import_into(
    session: Session, actor: Actor, course: Course, csv_text: str, *, now: datetime
) -> ImportResult:
    """Make everyone on a class list a member of a course, which gets the list's order. Raise ``InvalidValue``."""
    problems: list[str] = []
    lines = list(_lines(csv_text, problems))
    people = {line.number: users.find_name(session, line.user) for line in lines if line.user}
    known = members.with_label(session, course.id)
    people |= {line.number: known.get(line.person.label) for line in lines if not line.user}
    _check_lines(session, course, lines, people, problems)
    if problems:
        raise InvalidValue(problems)
    result = _store(session, course, lines, people, actor=actor, now=now)
    detail = {"members": len(result.added), "codes": len(result.codes)}
    audit_log.record(session, actor, "members.import", f"course:{course.name}", detail, now)
    return result


def names_in(text: str) -> list[str]:
    """Return the names of users in a list: the column ``user`` of a class list, or one name on each line.

    Raises:
        InvalidValue: The class list has bad lines, or lines without a user; the text has each of them.
    """
    problems: list[str] = []
    lines = list(_lines(class_of(text), problems))
    problems += [f"line {line.number}: no name in the column `user`" for line in lines if not line.user]
    if problems:
        raise InvalidValue(problems)
    return [line.user for line in lines]


def class_of(text: str) -> str:
    """Return a class list as it is, and one name on each line as a class list."""
    first = text.removeprefix("\ufeff").partition("\n")[0]
    if {cell.strip().lower() for cell in first.split(",")} & set(COLUMNS):
        return text
    made = io.StringIO()
    names = [name for name in map(str.strip, text.removeprefix("\ufeff").splitlines()) if name]
    csv.writer(made).writerows([["user"], *([name] for name in names)])
    return made.getvalue()


def _lines(csv_text: str, problems: list[str]) -> Iterator[_Line]:
    """Yield the lines, and add a problem for each that cannot be read. Raise ``InvalidValue`` for too many."""
    reader, count = csv.reader(io.StringIO(csv_text.removeprefix("\ufeff"), newline=""), strict=True), 0
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if fault := _fault_of(header):
            problems.append(f"line 1: {fault}")
            return
        for cells in reader:
            number = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            count += 1
            if count > MOST_INVITES:
                raise InvalidValue(f"line {number}: at most {MOST_INVITES:,} people at once")
            if len(cells) > len(header):
                problems.append(f"line {number}: {len(cells)} cells, where the header has {len(header)}")
                continue
            values = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            said = {name: values.get(name, "") for name in ("label", "name", "group")}
            person = Person(**said, pseudonym=values.get("pseudonym") or None)
            yield _Line(number=number, position=count, user=values.get("user", ""), person=person)
    except csv.Error as error:
        problems.append(f"line {reader.line_num}: {error}")


def _fault_of(header: list[str]) -> str:
    """Return the fault of the column names, empty if they are right."""
    unknown = [name for name in header if name not in COLUMNS]
    if any(unknown):
        named = [
            f"unknown column `{name}`,{did_you_mean(name, COLUMNS)}".rstrip(",")
            for name in unknown[:MOST_FAULTS]
        ]
        return f"{'; '.join([*named, *more(len(unknown) - MOST_FAULTS)])}; there are {', '.join(COLUMNS)}"
    if not {"user", "label"} & set(header):
        expected = "columns `user` or `label` or both, and optionally `name`, `group`, `pseudonym`"
        return f"expected a header with the {expected}; found {', '.join(header) or 'none'}"
    repeated = next((name for name in header if header.count(name) > 1), "")
    return f"the column `{repeated}` occurs twice" if repeated else ""


def _check_lines(
    session: Session,
    course: Course,
    lines: list[_Line],
    people: Mapping[int, tuple[int, str] | None],
    problems: list[str],
) -> None:
    """Add a problem for each invalid line."""
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        if not line.shown:
            problems.append(f"line {line.number}: neither user nor label")
            continue
        known = people.get(line.number)
        problems += [
            f"line {line.number}: {told}"
            for told in _problems_of(session, course, line, None if known is None else known[0])
        ]
        kind, name = ("user", line.user) if line.user else ("label", line.person.label)
        keys = [(kind, users.name_key(name))]
        if line.person.pseudonym is not None:
            keys.append(("pseudonym", line.person.pseudonym.lower()))
        for key in keys:
            first = seen.setdefault(key, line.number)
            if first != line.number:
                problems.append(f"line {line.number}: the same {key[0]} as in line {first}")


def _problems_of(session: Session, course: Course, line: _Line, user_id: int | None) -> Iterator[str]:
    person = line.person
    checks: list[Callable[[], None]] = [
        lambda: check_label(line.shown),
        lambda: check_label(person.name, "Name"),
        lambda: check_label(person.group, "Group"),
    ]
    if (pseudonym := person.pseudonym) is not None:
        checks.append(lambda: check_pseudonym(pseudonym))
        checks.append(lambda: check_free(session, course, pseudonym, besides=user_id))
    for check in checks:
        try:
            check()
        except (InvalidValue, Conflict) as error:
            yield str(error)


def _make_room(session: Session, course: Course, lines: list[_Line]) -> dict[str, int]:
    """Make room in front for a register, and return no places; for plain names return the places of all in it.

    A list of names, as for sign-in links, may have a few people of a course only: it changes no order.
    """
    if any(line.person.label or line.person.name or line.person.group for line in lines):
        members.shift(session, course.id, len(lines))
        return {}
    known = [each for _, each in members.register(session, course.id)]
    places = {
        users.name_key(each.user or each.label): each.position for each in known if each.position is not None
    }
    new = [key for line in lines if (key := users.name_key(line.shown)) not in places]
    first = max(places.values(), default=0) + 1
    return places | {key: first + index for index, key in enumerate(new)}


def _store(
    session: Session,
    course: Course,
    lines: list[_Line],
    people: Mapping[int, tuple[int, str] | None],
    *,
    actor: Actor,
    now: datetime,
) -> ImportResult:
    added: list[str] = []
    already: list[str] = []
    codes: list[PersonalCode] = []
    new: list[invites.NewInvite] = []
    placed = _make_room(session, course, lines)
    unused = {
        each.label: each.code
        for each in invites.of_course(session, course.id)
        if each.label and each.claimed_at is None and each.courses == (course.name,)
    }
    for line in lines:
        code, known = unused.get(line.shown), people.get(line.number)
        of_person = {
            **dataclasses.asdict(line.person),
            "position": placed.get(users.name_key(line.shown), line.position),
        }
        if known is not None:
            user_id, name = known
            is_new = members.add(session, course_id=course.id, user_id=user_id, now=now, **of_person)
            (added if is_new else already).append(name)
            if code is not None:  # the person has an account by now
                invites.remove(session, code)
            continue
        if code is None:
            code = new_code()
            new.append(invites.NewInvite(code=code, **of_person | {"label": line.shown}))
        else:
            invites.write(session, code, line.person, of_person["position"])
        codes.append(PersonalCode(line=line.number, label=line.shown, code=code))
    invites.insert_all(session, new, course_ids=[course.id], created_by=actor.user_id, now=now)
    absent = tuple(line.user for line in lines if line.user and people.get(line.number) is None)
    return ImportResult(
        added=tuple(added), already=tuple(already), codes=tuple(codes), without_account=absent
    )
