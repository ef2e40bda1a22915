"""The commands ``kernelcup kernelbot ...``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.options import ConfigOption, JsonOption
from kernelcup.errors import InvalidValue

app = typer.Typer(
    name="kernelbot",
    help="Move a competition here from KernelBot, and back.",
    cls=HelpGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

SchemaOption = Annotated[str, typer.Option("--schema", help="The schema's name.")]


@app.callback()
def root() -> None:
    """Move a competition here from KernelBot, and back."""


@app.command("import")
def import_(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="KernelBot's database: postgresql://USER@HOST/NAME.")
    ],
    since: Annotated[
        str | None,
        typer.Option("--since", help="Read only submissions from this time on, as 2026-07-01T12:00Z."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be imported, and write nothing.")
    ] = False,
    schema: SchemaOption = "leaderboard",
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Bring users, leaderboards, submissions and places from KernelBot's database.

    Run again, it brings only what is new. At the end all places are compared; the exit code is 1 if one differs.
    """
    from kernelcup_kernelbot.importing import run, words

    settings, now = wiring.load_config(config), datetime.now(UTC)
    with wiring.open_database(settings) as db, wiring.refusals(db):
        found = run.bring(
            db,
            url,
            schema=schema,
            known=settings.devices,
            since=None if since is None else _moment(since),
            dry_run=dry_run,
            now=now,
        )
    if as_json:
        typer.echo(json.dumps(words.as_object(found)))
    else:
        typer.echo("\n".join(words.lines(found, dry_run=dry_run)))
    if found.differences:
        raise typer.Exit(1)


@app.command()
def views(
    remove: Annotated[bool, typer.Option("--remove", help="Remove them.")] = False,
    schema: SchemaOption = "leaderboard",
    config: ConfigOption = None,
) -> None:
    """Make views for what reads KernelBot's tables, such as its site, or remove them. PostgreSQL only."""
    from kernelcup_kernelbot import views as made

    with wiring.open_database(wiring.load_config(config)) as db, wiring.refusals(db):
        if not remove:
            made.make(db, schema)
            typer.echo(f"schema {schema}: seven views; kernelcup kernelbot views --remove takes them away")
        elif made.remove(db, schema):
            typer.echo(f"schema {schema} is removed")
        else:
            typer.echo(f"there is no schema {schema}; nothing was changed")


def _moment(text: str) -> datetime:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"--since {text}: expected a time such as 2026-07-01T12:00Z") from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
