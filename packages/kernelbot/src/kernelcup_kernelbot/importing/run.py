"""The import from beginning to end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup.app.people.queries import audit_log
from kernelcup.domain import OPERATOR, Device
from kernelcup.engine import Database
from kernelcup_kernelbot.importing import boards, people, places, rules, source
from kernelcup_kernelbot.importing.boards import Boards
from kernelcup_kernelbot.importing.people import People
from kernelcup_kernelbot.importing.places import Difference
from kernelcup_kernelbot.importing.rules import Rules
from kernelcup_kernelbot.importing.source import Source
from kernelcup_kernelbot.importing.submissions import Importer, Submissions


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What an import brought."""

    people: People
    boards: Boards
    rules: Rules
    submissions: Submissions
    compared: int
    """Places in KernelBot's rankings; 0 in a dry run."""
    differences: list[Difference]


class _Undone(Exception):
    """Takes back what a dry run has written."""


def bring(
    db: Database,
    url: str,
    *,
    schema: str = source.SCHEMA,
    known: Sequence[Device],
    since: datetime | None = None,
    dry_run: bool = False,
    now: datetime,
) -> Imported:
    """Bring what KernelBot has and this database has not, and compare all places.

    Args:
        db: The database that gets it.
        url: KernelBot's database.
        schema: Where its tables lie there.
        known: The configured devices.
        since: Read only submissions from this time on.
        dry_run: Write nothing.
        now: The time.

    Raises:
        InvalidValue: There are no tables of KernelBot.
        Conflict: Another submission has the number of one of KernelBot's.
        StorageUnavailable: One of the databases cannot be reached.
    """
    with source.opened(url, schema) as origin:
        if dry_run:
            return _tried(db, origin, known, since, now)
        with db.write() as session:
            users, found, told = _settings(origin, session, known, now)
        sent = Importer(origin, users.ids, found, now).bring(db, since)
        was = places.before(origin, users.ids, found, sent.waiting | sent.deleted)
        wrong = _compare(db, was, found, sent.boards, now)
    if users.made or found.made or sent.made:
        with db.write() as session:
            detail = {"users": users.made, "leaderboards": found.made, "submissions": sent.made}
            audit_log.record(session, OPERATOR, "kernelbot.import", "service", detail, now)
    return Imported(
        people=users,
        boards=found,
        rules=told,
        submissions=sent,
        compared=places.count(was.values()),
        differences=wrong,
    )


def _settings(
    origin: Source, session: Session, known: Sequence[Device], now: datetime
) -> tuple[People, Boards, Rules]:
    users = people.bring(origin, session, now)
    found = boards.bring(origin, session, users.ids, known, now)
    return users, found, rules.bring(origin, session, users.ids, found.by_id, now)


def _tried(
    db: Database, origin: Source, known: Sequence[Device], since: datetime | None, now: datetime
) -> Imported:
    with suppress(_Undone), db.write() as session:
        users, found, told = _settings(origin, session, known, now)
        raise _Undone
    sent = Importer(origin, users.ids, found, now).bring(db, since, dry_run=True)
    return Imported(people=users, boards=found, rules=told, submissions=sent, compared=0, differences=[])


def _compare(
    db: Database, was: places.Rankings, found: Boards, changed: set[int], now: datetime
) -> list[Difference]:
    """Choose the bests where something is new, or an import before was cut off, and return what differs."""
    ids = {board.id for board in found.by_id.values()}
    by_name = {board.name: board.id for board in found.by_id.values()}
    with db.read() as session:
        wrong = places.differences(was, places.after(session, ids), found)
    for board_id in sorted(changed | {by_name[each.leaderboard] for each in wrong}):
        with db.write() as session:
            places.choose(session, board_id, now)
    with db.read() as session:
        return places.differences(was, places.after(session, ids), found)
