"""The commands ``kernelcup kernelbot ...``."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.options import ConfigOption, JsonOption
from kernelcup.reporting.phrases import plural

app = typer.Typer(
    name="kernelbot",
    help="Move a competition here from KernelBot, and back.",
    cls=HelpGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

OldUrl = Annotated[
    str, typer.Argument(metavar="URL", help="KernelBot's database: postgresql://USER@HOST/NAME.")
]
DevicesOption = Annotated[
    str, typer.Option("--devices", help="THERE=HERE for each GPU whose name here differs, with commas.")
]
SchemaOption = Annotated[str, typer.Option("--schema", help="The schema of KernelBot's tables.")]


@app.callback()
def root() -> None:
    """Move a competition here from KernelBot, and back."""


@app.command("import")
def import_(
    url: OldUrl,
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
    from kernelcup.app.boards.deadlines import parse_opening
    from kernelcup_kernelbot.importing import run

    settings, now = wiring.load_config(config), datetime.now(UTC)
    with wiring.open_database(settings) as db, wiring.refusals(db):
        found = run.bring(
            db,
            url,
            schema=schema,
            known=settings.devices,
            since=None if since is None else parse_opening(since),
            dry_run=dry_run,
            now=now,
        )
    if as_json:
        typer.echo(json.dumps(found.as_object()))
    else:
        typer.echo("\n".join(found.lines(dry_run=dry_run)))
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


@app.command()
def follow(
    url: OldUrl,
    boards: Annotated[
        str,
        typer.Option("--boards", help="Leaderboards, with commas; THERE=HERE where the name here differs."),
    ],
    server: Annotated[str | None, typer.Option("--server", help="Address of the server here.")] = None,
    devices: DevicesOption = "",
    journal: Annotated[Path, typer.Option("--journal", help="File that keeps what was sent.")] = Path(
        "kernelbot-follow.csv"
    ),
    once: Annotated[bool, typer.Option("--once", help="Send what is there, and end.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=1, help="Seconds between two looks.")] = 10.0,
    schema: SchemaOption = "leaderboard",
) -> None:
    """Send what is submitted to KernelBot to silent leaderboards here, too.

    It begins with what comes after its first start, and can be stopped and started at any time: the journal keeps
    what was sent. With --once the exit code is 1 if something could not be sent now.
    """
    from kernelcup.cli.credentials import Credentials
    from kernelcup.client.transport import Client
    from kernelcup_kernelbot.following import Follower

    address, token = Credentials.load(os.environ).find(server or os.environ.get("KERNELCUP_SERVER"))
    with Client(address, token) as client:
        follower = Follower(
            url=url,
            client=client,
            boards=_pairs(boards),
            devices={there.lower(): here for there, here in _pairs(devices).items()},
            journal=journal,
            schema=schema,
        )
        while True:
            found = follower.step()
            if found.sent or found.refused or found.trouble or once:
                told = f"{found.sent} sent, {found.refused} refused, {found.left} left"
                typer.echo(f"{told}: {found.trouble}" if found.trouble else told)
            if once and (not found.left or found.trouble):
                raise typer.Exit(1 if found.left else 0)
            if found.trouble or not found.left:
                time.sleep(max(every_s, found.wait_s))


@app.command()
def compare(
    url: OldUrl,
    page: Annotated[Path, typer.Option("--page", help="File for the page.")] = Path("kernelbot-compare.html"),
    table: Annotated[Path, typer.Option("--csv", help="File for the table.")] = Path("kernelbot-compare.csv"),
    schema: SchemaOption = "leaderboard",
    config: ConfigOption = None,
) -> None:
    """Compare verdicts, times, places and waiting times of what was followed: a page and a CSV file."""
    from kernelcup_kernelbot.comparison import compare as compared
    from kernelcup_kernelbot.importing.source import opened

    with wiring.open_database(wiring.load_config(config)) as db, opened(url, schema) as source:
        found = compared(source, db)
    page.write_text(found.as_page(), encoding="utf-8")
    table.write_text(found.as_csv(), encoding="utf-8")
    typer.echo(
        f"{plural(len(found.pairs), 'result')} compared, {found.open} not judged here yet: {page}, {table}"
    )


def _pairs(text: str) -> dict[str, str]:
    """Return names with the names that they have here."""
    halves = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    return {there.strip(): here.strip() or there.strip() for there, _, here in halves}


@app.command()
def back(
    url: OldUrl,
    since: Annotated[str, typer.Option("--since", help="When the switch was, as 2026-07-04T18:00Z.")],
    devices: DevicesOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and write nothing.")] = False,
    schema: SchemaOption = "leaderboard",
    config: ConfigOption = None,
) -> None:
    """Write what came since the switch into KernelBot's tables: all of it, or nothing after an error.

    Run again, it adds only what is new.
    """
    from kernelcup.app.boards.deadlines import parse_opening
    from kernelcup_kernelbot.importing.source import opened
    from kernelcup_kernelbot.returning import give_back

    gpus = {here.lower(): there for there, here in _pairs(devices).items()}
    moment, settings = parse_opening(since), wiring.load_config(config)
    with wiring.open_database(settings) as db, opened(url, schema, writes=True) as source:
        found = give_back(source, db, since=moment, gpus=gpus, dry_run=dry_run)
    typer.echo("\n".join([*found.lines(), *(["dry run: nothing was written"] if dry_run else [])]))
