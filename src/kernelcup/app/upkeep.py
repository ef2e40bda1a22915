"""The upkeep of the service: backups."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from kernelcup.app.people.queries import audit_log
from kernelcup.domain import OPERATOR
from kernelcup.engine import Database, backups
from kernelcup.errors import StorageUnavailable

BACKED_UP = "db.backup"
"""The action in the audit log by which all servers know when the last backup was made."""


def back_up(db: Database, file: Path, *, now: datetime) -> int:
    """Write a copy of the database to a new file, and return its size in bytes. Raise as ``backups.back_up``."""
    size = backups.back_up(db, file)
    # The copy of a database that takes no writes is worth the most.
    with suppress(StorageUnavailable), db.write() as session:
        audit_log.record(session, OPERATOR, BACKED_UP, "service", {"file": str(file), "bytes": size}, now)
    return size
