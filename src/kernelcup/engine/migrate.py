"""Migrate a database's tables to the version that this code expects."""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa

from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError, OldDatabase

MIGRATIONS = Path(__file__).parents[1] / "migrations"

FIRST_SCHEMA = "0100"
"""The revision with which compatibility begins."""

_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps its state in module variables."""

_POSTGRES_LOCK = 6401


def upgrade(db: Database, revision: str = "head") -> None:
    """Apply the missing migrations, in one transaction. Safe to call at each start.

    Every local command calls it, so without missing migrations it only reads, and does not import Alembic.

    Raises:
        OldDatabase: It is from before the first release.
        ConfigError: It is from a newer version.
    """
    current = current_revision(db)
    if revision == "head" and current == newest_revision():
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    engine = db.engine.execution_options(kernelcup_writes=True)
    with _ONE_AT_A_TIME, engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Other processes wait here; on SQLite they wait at the beginning of the transaction.
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})")
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise ConfigError(f"{db.engine.url!r}: the database is from a newer version: {error}") from error


def current_revision(db: Database) -> str | None:
    """Return the database's current revision, None for an empty one. Raise ``OldDatabase``."""
    with db.read() as session:
        if not sa.inspect(session.connection()).has_table("alembic_version"):
            return None
        found: str | None = session.scalar(sa.text("SELECT version_num FROM alembic_version"))
    if found is not None and found < FIRST_SCHEMA:
        raise OldDatabase(
            f"{db.engine.url!r}: the database is from before release 0.1.0 (revision {found}) and cannot be upgraded; "
            "name another database"
        )
    return found


def newest_revision() -> str:
    """Return the revision that this code expects: files of migrations begin with theirs."""
    return max(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))
