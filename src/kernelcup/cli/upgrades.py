"""Bring a database up to date: with a copy from before, and words about it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import typer

from kernelcup.config.settings import Config
from kernelcup.engine import backups, migrate
from kernelcup.engine.database import Database
from kernelcup.errors import ConfigError


def prepare(db: Database, config: Config) -> None:
    """Upgrade a SQLite file; raise ``ConfigError`` for a server's database that is not up to date."""
    if db.engine.dialect.name == "sqlite":
        if copy := upgrade(db, config):
            typer.echo(
                f"the database was upgraded to revision {migrate.newest_revision()}; {way_back(copy)}",
                err=True,
            )
        return
    current, newest = migrate.current_revision(db), migrate.newest_revision()
    if current != newest:
        state = "has no tables yet" if current is None else f"is at revision {current}, not {newest}"
        raise ConfigError(f"{db.engine.url!r} {state}; run: kernelcup db upgrade")


def upgrade(db: Database, config: Config) -> Path | None:
    """Apply the missing migrations. Return the copy from before, None if there was nothing to copy."""
    return migrate.upgrade(db, copy_to=lambda: backups.dated(config.data_dir / "backups", datetime.now(UTC)))


def way_back(copy: Path) -> str:
    """Say how to get the database back from a copy."""
    return f"as it was before: kernelcup db restore {copy} --yes"
