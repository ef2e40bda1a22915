"""``kernelcup db``: bring the database up to date, back it up, bring it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.options import ConfigOption, JsonOption

if TYPE_CHECKING:
    from kernelcup.config import Config
    from kernelcup.storage.database import Database

app = typer.Typer(help="Bring the database up to date, back it up, bring it back.", no_args_is_help=True)


@app.command()
def upgrade(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Bring the database's tables to the form that this version expects.

    SQLite files are upgraded by every command; a PostgreSQL database by this one only.
    """
    from kernelcup.cli import platform
    from kernelcup.storage import schema

    with platform.open_database(platform.load_config(config), upgrade=False) as db, platform.refusals(db):
        before = schema.current_revision(db)
        schema.upgrade(db)
        after = schema.current_revision(db)
    if as_json:
        typer.echo(json.dumps({"before": before, "after": after}))
    elif before == after:
        typer.echo(f"the database is up to date (revision {after})")
    else:
        typer.echo(f"the database went from revision {before or 'nothing'} to {after}")


def check_is_there(url: str) -> None:
    """Raise ``NotFound`` rather than make an empty SQLite database and back that up."""
    from kernelcup.errors import NotFound

    missing = missing_file(url)
    if missing is not None:
        raise NotFound(
            f"There is no database at {missing}. That of a server is on its machine: run this there, "
            "with its KERNELCUP_HOME."
        )


def missing_file(url: str) -> Path | None:
    """Return the file of a SQLite database that is not there, None where it is or where there is a server."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except ArgumentError:
        return None  # whoever opens it says what is wrong
    is_file = found.get_backend_name() == "sqlite" and found.database not in (None, "", ":memory:")
    file = Path(str(found.database))
    return file if is_file and not file.exists() else None


def state_of(settings: Config) -> str:
    """Say in what state the database is; nothing is made or changed.

    Raises:
        ConfigError, StorageUnavailable: `kernelcup serve` could not use it.
    """
    import os

    from kernelcup.cli import platform
    from kernelcup.errors import ConfigError
    from kernelcup.storage import schema

    missing = missing_file(settings.database_url)
    if missing is not None:
        folder = next(each for each in missing.absolute().parents if each.exists())
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"database: {missing} is not there, and nothing can be written to {folder}")
        return "not there yet; the first command that needs it makes it"
    with platform.open_database(settings, upgrade=False) as db, platform.refusals(db):
        current, upgrades_itself = schema.current_revision(db), db.engine.dialect.name == "sqlite"
    if current == schema.newest_revision():
        return f"answers, up to date (revision {current})"
    then = (
        "the next command that needs it brings it up to date"
        if upgrades_itself
        else "run: kernelcup db upgrade"
    )
    return f"answers, at revision {current or 'none: it has no tables'}; {then}"


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Write a copy of the database to FILE, while the service goes on."""
    from kernelcup.cli import platform
    from kernelcup.storage import backups

    settings = platform.load_config(config)
    check_is_there(settings.database_url)
    with platform.open_database(settings) as db:
        size = backups.back_up(db, file)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "bytes": size}))
    else:
        typer.echo(f"{file}: {size:,} bytes. Next: kernelcup db restore {file}, on the day that you need it")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `kernelcup db backup` wrote.")],
    yes: Annotated[bool, typer.Option("--yes", help="Replace what is there.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Bring the database back to what is in FILE. Stop the service first.

    While a dispatcher is at work it is refused: what that wrote would be lost or mixed in. A database
    that has something in it is replaced with --yes only.
    """
    from kernelcup.cli import platform
    from kernelcup.storage import backups, schema

    with platform.open_database(platform.load_config(config), upgrade=False) as db, platform.refusals(db):
        check_idle(db)
        backups.restore(db, file, replace=yes)
        revision = schema.current_revision(db)
        schema.upgrade(db)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "revision": revision}))
    else:
        typer.echo(f"the database is as it was in {file} (revision {revision})")


def check_idle(db: Database) -> None:
    """Raise ``Conflict`` while a dispatcher is at work with the database."""
    from datetime import UTC, datetime

    from kernelcup.errors import Conflict
    from kernelcup.services import dispatchers
    from kernelcup.storage import schema

    if schema.current_revision(db) != schema.newest_revision():
        return  # of another version, or empty: nothing of this version works with it
    alive = dispatchers.list_alive(db, datetime.now(UTC))
    if alive:
        names = ", ".join(f"{info.owner} (seen {info.seen_at:%H:%M:%S} UTC)" for info in alive)
        error = Conflict(f"a dispatcher is at work: {names}; nothing was restored")
        error.add_note(
            f"stop `kernelcup serve`; one that was lost is forgotten after {dispatchers.ALIVE_FOR.seconds} s"
        )
        raise error
