"""Import a class from a CSV file: people with an account become members, all others get an invite code each."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from kernelcup.app.boards.boards import find_managed
from kernelcup.app.boards.invite_codes import (
    MOST_INVITES,
    check_free,
    check_label,
    check_pseudonym,
    new_code,
)
from kernelcup.app.boards.queries import invites, members
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.domain import Actor, Leaderboard
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue

COLUMNS = ("user", "label", "pseudonym")


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
    user: str
    label: str
    pseudonym: str | None

    @property
    def shown(self) -> str:
        return self.label or self.user


@operation("POST", "/leaderboards/{name}/members/import", subject="rules")
def import_members(
    db: Database,
    actor: Actor,
    board: Board,
    csv_text: Annotated[
        str,
        Given(key="csv", longest=1_000_000, help="CSV with a header: `user` or `label`, `pseudonym`."),
    ],
    *,
    now: datetime,
) -> ImportResult:
    """Make everyone on a class list a member, all or none; people without an account get a code each.

    Args:
        db: The database.
        actor: A manager of the leaderboard.
        board: Its name.
        csv_text: CSV with a header: ``user`` or ``label`` or both, and optionally ``pseudonym``.
        now: When it was sent.

    Raises:
        InvalidValue: The list has bad lines; the text has each of them, with its number.
    """
    problems: list[str] = []
    with db.write(durable=True) as session:
        found = find_managed(session, board, actor)
        lines = list(_lines(csv_text, problems))
        people = {line.number: users.find_name(session, line.user) for line in lines if line.user}
        _check_lines(session, found, lines, people, problems)
        if problems:
            raise InvalidValue("\n".join(problems))
        result = _store(session, found, lines, people, actor=actor, now=now)
        detail = {"members": len(result.added), "codes": len(result.codes)}
        audit_log.record(session, actor, "members.import", f"board:{found.name}", detail, now)
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
        raise InvalidValue("\n".join(problems))
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
    """Yield the lines, and add a problem for each that cannot be read."""
    reader = csv.reader(io.StringIO(csv_text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if fault := _fault_of(header):
            problems.append(f"line 1: {fault}")
            return
        for cells in reader:
            number = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(header):
                problems.append(f"line {number}: {len(cells)} cells, where the header has {len(header)}")
                continue
            values = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            yield _Line(
                number=number,
                user=values.get("user", ""),
                label=values.get("label", ""),
                pseudonym=values.get("pseudonym") or None,
            )
    except csv.Error as error:
        problems.append(f"line {reader.line_num}: {error}")


def _fault_of(header: list[str]) -> str:
    """Return the fault of the column names, empty if they are right."""
    unknown = [name for name in header if name not in COLUMNS]
    if any(unknown):
        named = "; ".join(f"unknown column `{name}`{_meant(name)}" for name in unknown)
        return f"{named}; there are {', '.join(COLUMNS)}"
    if not {"user", "label"} & set(header):
        expected = "columns `user` or `label` or both, and optionally `pseudonym`"
        return f"expected a header with the {expected}; found {', '.join(header) or 'none'}"
    repeated = next((name for name in header if header.count(name) > 1), "")
    return f"the column `{repeated}` occurs twice" if repeated else ""


def _meant(name: str) -> str:
    near = difflib.get_close_matches(name, COLUMNS, n=1)
    return f", did you mean `{near[0]}`?" if near else ""


def _check_lines(
    session: Session,
    board: Leaderboard,
    lines: list[_Line],
    people: dict[int, tuple[int, str] | None],
    problems: list[str],
) -> None:
    """Add a problem for each invalid line."""
    if len(lines) > MOST_INVITES:
        problems.append(f"line {lines[MOST_INVITES].number}: at most {MOST_INVITES:,} people at once")
        return
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        if not line.shown:
            problems.append(f"line {line.number}: neither user nor label")
            continue
        person = people.get(line.number)
        kind, name = ("user", line.user) if line.user else ("label", line.label)
        _note(problems, line.number, lambda line=line: check_label(line.shown))  # type: ignore[misc]
        keys = [(kind, users.name_key(name))]
        if line.pseudonym is not None:
            keys.append(("pseudonym", line.pseudonym.lower()))
            _note(problems, line.number, lambda line=line: check_pseudonym(line.pseudonym or ""))  # type: ignore[misc]
            besides = None if person is None else person[0]
            _note(
                problems,
                line.number,
                lambda line=line, besides=besides: check_free(  # type: ignore[misc]
                    session, board, line.pseudonym, besides=besides
                ),
            )
        for key in keys:
            first = seen.setdefault(key, line.number)
            if first != line.number:
                problems.append(f"line {line.number}: the same {key[0]} as in line {first}")


def _note(problems: list[str], number: int, check: Callable[[], None]) -> None:
    try:
        check()
    except (InvalidValue, Conflict) as error:
        problems.append(f"line {number}: {error}")


def _store(
    session: Session,
    board: Leaderboard,
    lines: list[_Line],
    people: dict[int, tuple[int, str] | None],
    *,
    actor: Actor,
    now: datetime,
) -> ImportResult:
    added: list[str] = []
    already: list[str] = []
    codes: list[PersonalCode] = []
    new: list[invites.NewInvite] = []
    unused = {
        each.label: each.code
        for each in invites.of_board(session, board.id)
        if each.label and each.claimed_at is None and each.boards == (board.name,)
    }
    for line in lines:
        person = people.get(line.number)
        if person is not None:
            user_id, name = person
            is_new = members.add(
                session,
                board_id=board.id,
                user_id=user_id,
                pseudonym=line.pseudonym,
                label=line.label,
                now=now,
            )
            (added if is_new else already).append(name)
            continue
        code = unused.get(line.shown)
        if code is None:
            code = new_code()
            new.append(invites.NewInvite(code=code, label=line.shown, pseudonym=line.pseudonym))
        codes.append(PersonalCode(line=line.number, label=line.shown, code=code))
    invites.insert_all(session, new, board_ids=[board.id], created_by=actor.user_id, now=now)
    absent = tuple(line.user for line in lines if line.user and people.get(line.number) is None)
    return ImportResult(
        added=tuple(added), already=tuple(already), codes=tuple(codes), without_account=absent
    )
