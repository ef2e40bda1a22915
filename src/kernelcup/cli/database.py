"""``kernelcup db``: bring the database up to date, back it up, bring it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kernelcup.cli.options import ConfigOption, JsonOption

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


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Write a copy of the database to FILE, while the service goes on."""
    from kernelcup.cli import platform
    from kernelcup.storage import backups

    with platform.open_database(platform.load_config(config)) as db:
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

    A database that has something in it is replaced with --yes only.
    """
    from kernelcup.cli import platform
    from kernelcup.storage import backups, schema

    with platform.open_database(platform.load_config(config), upgrade=False) as db, platform.refusals(db):
        backups.restore(db, file, replace=yes)
        revision = schema.current_revision(db)
        schema.upgrade(db)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "revision": revision}))
    else:
        typer.echo(f"the database is as it was in {file} (revision {revision})")
