"""``kernelcup db``: bring the database up to date, back it up, restore it, copy it to one of another kind."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.options import ConfigOption, JsonOption
from kernelcup.cli.show.output import fields
from kernelcup.errors import ConfigError, Conflict, InvalidValue, NotFound
from kernelcup.reporting.phrases import plural

if TYPE_CHECKING:
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database

app = typer.Typer(
    help="Bring the database up to date, back it up, restore it, copy it.", no_args_is_help=True
)


@app.command()
def upgrade(
    no_backup: Annotated[
        bool, typer.Option("--no-backup", help="Make no copy first, because you have one.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Upgrade the database's tables to this version. Stop the service first.

    A copy from before is written to the folder `backups` of the data folder. If the upgrade fails, the
    database stays as it was. Every command upgrades a SQLite file; only this one upgrades a PostgreSQL database.
    """
    from kernelcup.cli import upgrades
    from kernelcup.engine import migrate

    settings = wiring.load_config(config)
    with wiring.open_database(settings, upgrade=False) as db, wiring.refusals(db):
        before = migrate.current_revision(db)
        copy = migrate.upgrade(db) if no_backup else upgrades.upgrade(db, settings)
        after = migrate.current_revision(db)
    if as_json:
        typer.echo(json.dumps({"before": before, "after": after, "backup": copy and str(copy)}))
    elif before == after:
        typer.echo(f"the database is up to date (revision {after})")
    else:
        how = f"; {upgrades.way_back(copy)}" if copy else ""
        did = (
            f"went from revision {before} to {after}" if before else f"has its tables now (revision {after})"
        )
        typer.echo(f"the database {did}{how}")


def check_is_there(url: str) -> None:
    """Raise ``NotFound`` if there is no SQLite file, rather than create an empty one and back that up."""
    missing = missing_file(url)
    if missing is not None:
        raise NotFound(
            f"There is no database at {missing}. A server's database is on the server's machine: run this "
            "command there, with its KERNELCUP_HOME."
        )


def missing_file(url: str) -> Path | None:
    """Return the path of a missing SQLite file; None if it exists, or for a database server."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except ArgumentError:
        return None  # opening it reports the error
    is_file = found.get_backend_name() == "sqlite" and found.database not in (None, "", ":memory:")
    file = Path(str(found.database))
    return file if is_file and not file.exists() else None


def state_of(settings: Config) -> str:
    """Describe the database's state; nothing is created or changed.

    Raises:
        ConfigError, StorageUnavailable: `kernelcup serve` could not use it.
    """

    from kernelcup.engine import migrate

    missing = missing_file(settings.database_url)
    if missing is not None:
        folder = next(each for each in missing.absolute().parents if each.exists())
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"database: {missing} does not exist, and {folder} is not writable")
        return "does not exist yet; the first command that needs it creates it"
    with wiring.open_database(settings, upgrade=False) as db, wiring.refusals(db):
        current, upgrades_itself = migrate.current_revision(db), db.engine.dialect.name == "sqlite"
    if current == migrate.newest_revision():
        return f"answers, up to date (revision {current})"
    then = (
        "the next command that needs it brings it up to date"
        if upgrades_itself
        else "run: kernelcup db upgrade"
    )
    return f"answers, at revision {current or 'none: it has no tables'}; {then}"


@app.command()
def backup(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A new file; with --keep a folder, default: backups."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="How many dated copies stay there.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Write a copy of the database to FILE. The service may keep running.

    With --keep, for a timer, the copy is named by its date, in the folder `backups` of the data folder or in
    another one. Once it is written, the oldest such copies there are deleted, and never another file.
    """
    from kernelcup.app import upkeep
    from kernelcup.engine import backups

    settings, now = wiring.load_config(config), datetime.now(UTC)
    if file is None and keep is None:
        raise InvalidValue("Name a file for the copy, or give --keep for dated copies in a folder.")
    check_is_there(settings.database_url)
    with wiring.open_database(settings) as db:
        target = file if file and not keep else backups.dated(file or settings.data_dir / "backups", now)
        size = upkeep.back_up(db, target, now=now)
    removed = [str(path) for path in backups.thin_out(target, keep)] if keep else []
    if as_json:
        typer.echo(json.dumps({"file": str(target), "bytes": size, "removed": removed}))
    else:
        typer.echo(f"{target}: {size:,} bytes. To restore it: kernelcup db restore {target}")
        for path in removed:
            typer.echo(f"{path}: deleted")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `kernelcup db backup` wrote.")],
    yes: Annotated[bool, typer.Option("--yes", help="Replace the existing data.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Restore the database from FILE. Stop the service first.

    The command refuses while a server uses the database: what it stores would be lost or mixed in. A
    database that is not empty is replaced only with --yes.
    """
    from kernelcup.app.machines import dispatchers
    from kernelcup.engine import backups, migrate

    with wiring.open_database(wiring.load_config(config), upgrade=False) as db, wiring.refusals(db):
        check_idle(db)
        backups.restore(db, file, replace=yes, check=migrate.check_revision)
        revision = migrate.current_revision(db)
        migrate.upgrade(db)
        dispatchers.forget_all(db)  # the copy has the heartbeat of the server that wrote while it was made
    if as_json:
        typer.echo(json.dumps({"file": str(file), "revision": revision}))
    else:
        typer.echo(f"the database is restored from {file} (revision {revision})")


@app.command()
def copy(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET_URL", help="postgresql://USER@HOST/NAME or sqlite:///FILE, empty."),
    ],
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Copy the database to an empty one, from SQLite to PostgreSQL or back. Stop the service first.

    Each row is compared on both sides; unless all are equal, nothing is copied. The database stays as it is.
    """
    from kernelcup.engine.copying import copy as copy_rows
    from kernelcup.engine.database import Database
    from kernelcup.tables import Base

    settings = wiring.load_config(config)
    check_is_there(settings.database_url)
    with wiring.open_database(settings) as db, Database.open(target) as other, wiring.refusals(other):
        check_idle(db)
        tables = copy_rows(db, other, Base.metadata.sorted_tables)
    files, own = sorted(map(str, settings.data_dir.glob("*"))), str(db.engine.url.database)
    beside = [file for file in files if not file.startswith(own)]
    if as_json:
        typer.echo(json.dumps({"tables": list(map(fields, tables)), "beside": beside}))
        return
    for each in tables:
        typer.echo(f"{each.table}: {plural(each.rows, 'row')}, sha256 {each.sha256[:16]} on both sides")
    equal = plural(sum(each.rows for each in tables), "row is", "rows are")
    typer.echo(f"{equal} equal; name the copy in KERNELCUP_DATABASE.")
    typer.echo(
        f"Not in the database, and to be copied too if the machine changes: {', '.join(beside) or 'nothing'}"
    )


def check_idle(db: Database) -> None:
    """Raise ``Conflict`` while a server works with the database."""

    from kernelcup.app.machines import dispatchers
    from kernelcup.engine import migrate

    if migrate.stored_revision(db) != migrate.newest_revision():
        return  # another version's, or empty: no server of this version uses it
    alive = dispatchers.list_servers(db, datetime.now(UTC))
    if alive:
        names = ", ".join(f"{info.owner} (seen {info.seen_at:%H:%M:%S} UTC)" for info in alive)
        error = Conflict(f"a server is running: {names}; nothing was changed")
        error.add_note(
            f"stop `kernelcup serve`; a server that crashed is forgotten after {dispatchers.ALIVE_FOR.seconds} s"
        )
        raise error
