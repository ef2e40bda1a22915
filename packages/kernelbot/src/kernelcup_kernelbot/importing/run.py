"""The import from beginning to end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from kernelcup.app.people.queries import audit_log
from kernelcup.domain import OPERATOR, Device
from kernelcup.engine import Database
from kernelcup_kernelbot.importing import boards, people, places, rules, source
from kernelcup_kernelbot.importing.imported import Imported
from kernelcup_kernelbot.importing.submissions import Importer


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
    found = Imported(known=known)
    with source.opened(url, schema) as origin:
        with suppress(_Undone), db.write() as session:
            people.bring(origin, session, found, now)
            boards.bring(origin, session, found, now)
            rules.bring(origin, session, found, now)
            if dry_run:
                raise _Undone
        reasons = places.reasons(origin, found)
        Importer(origin, found, reasons, now).bring(db, since, dry_run=dry_run)
        if dry_run:
            return found
        places.revise(db, found, reasons, now)
        places.compare(origin, db, found, now)
    detail = {name: found.counts[name] for name in ("users", "leaderboards", "submissions")}
    if any(detail.values()):
        with db.write() as session:
            audit_log.record(session, OPERATOR, "kernelbot.import", "service", detail, now)
    return found
