"""Migrate a database's tables to the version that this code expects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from kernelcup import __version__
from kernelcup.engine.database import Database
from kernelcup.errors import NewerDatabase, OldDatabase

MIGRATIONS = Path(__file__).parents[1] / "migrations"

FIRST_SCHEMA = "0100"
"""The revision with which compatibility begins."""

_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps its state in module variables."""

_POSTGRES_LOCK = 6401


def upgrade(
    db: Database, revision: str = "head", *, copy_to: Callable[[], Path] | None = None
) -> Path | None:
    """Apply the missing migrations, in one transaction: if one fails, the database stays as it is.

    Every local command calls it, so without missing migrations it only reads, and does not import Alembic.

    Args:
        db: The database.
        revision: Where to stop.
        copy_to: Names the file for a copy of a database that has tables, before they change; None makes no copy.

    Returns:
        The copy, None if none was made. After a failure it is deleted.

    Raises:
        OldDatabase: It is from before the first release.
        NewerDatabase: It is from a newer version.
        Conflict, ConfigError, StorageUnavailable: The copy cannot be made.
    """
    if revision == "head":
        revision = newest_revision()
    if current_revision(db) == revision:
        return None
    from alembic import command
    from alembic.config import Config

    from kernelcup.engine import backups

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    copy = None
    try:
        with _ONE_AT_A_TIME, _changing_tables(db) as config.attributes["connection"]:
            # Another process may have upgraded it meanwhile.
            if current_revision(db) not in (None, revision) and copy_to is not None:
                file = copy_to()
                backups.back_up(db, file)
                copy = file
            command.upgrade(config, revision)
    except BaseException:
        if copy is not None:
            copy.unlink(missing_ok=True)  # a service that is started again and again would fill the disk
        raise
    return copy


@contextmanager
def _changing_tables(db: Database) -> Iterator[sa.Connection]:
    """Open a transaction. Other processes that upgrade wait: on SQLite at its beginning, on PostgreSQL for a lock."""
    with db.engine.execution_options(kernelcup_writes=True).connect() as connection:
        if connection.dialect.name == "postgresql":
            with connection.begin():
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})")
                yield connection
            return
        # Dropping a table, as is done to rebuild it, would delete the rows that refer to it. Inside a transaction
        # this statement does nothing.
        file = connection.connection.cursor()
        file.execute("PRAGMA foreign_keys=OFF")
        try:
            with connection.begin():
                yield connection
        finally:
            file.execute("PRAGMA foreign_keys=ON")


def current_revision(db: Database) -> str | None:
    """Return the database's current revision, None for an empty one.

    Raises:
        OldDatabase: It is from before the first release.
        NewerDatabase: This version does not know it.
    """
    found = stored_revision(db)
    check_revision(found, repr(db.engine.url))
    return found


def check_revision(found: str | None, where: str) -> None:
    """Raise ``OldDatabase`` or ``NewerDatabase`` unless this version knows the revision of a database or a copy."""
    if found is not None and found < FIRST_SCHEMA:
        raise OldDatabase(
            f"{where}: the database is from before release 0.1.0 (revision {found}) and cannot be upgraded; "
            "name another database"
        )
    if found is not None and found not in _revisions():
        raise NewerDatabase(
            f"{where}: the database is at revision {found}, and kernelcup {__version__} knows none above "
            f"{newest_revision()}: a newer version has upgraded it. Install that version, or restore the copy from "
            "before the upgrade: kernelcup db restore FILE --yes"
        )


def stored_revision(db: Database) -> str | None:
    """Return the revision that a database names, also one of another version; None for an empty database."""
    with db.read() as session:
        if not sa.inspect(session.connection()).has_table("alembic_version"):
            return None
        found: str | None = session.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


def newest_revision() -> str:
    """Return the revision that this code expects."""
    return max(_revisions())


def _revisions() -> set[str]:
    """Return all revisions: files of migrations begin with theirs."""
    return {path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py")}
