"""The commands ``kernelcup kernelbot ...``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from kernelcup.app.boards.deadlines import parse_opening
from kernelcup.cli import wiring
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.options import ConfigOption

app = typer.Typer(
    name="kernelbot",
    help="Move a competition here from KernelBot, and back.",
    cls=HelpGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Move a competition here from KernelBot, and back."""


OldUrl = Annotated[
    str, typer.Argument(metavar="URL", help="KernelBot's database: postgresql://USER@HOST/NAME.")
]
SchemaName = Annotated[str, typer.Option("--schema", help="The schema of KernelBot's tables.")]


@app.command()
def follow(
    url: OldUrl,
    boards: Annotated[
        str,
        typer.Option("--boards", help="Leaderboards, with commas; THERE=HERE where the name here differs."),
    ],
    server: Annotated[str | None, typer.Option("--server", help="Address of the server here.")] = None,
    devices: Annotated[
        str, typer.Option("--devices", help="THERE=HERE for each GPU whose name here differs, with commas.")
    ] = "",
    journal: Annotated[Path, typer.Option("--journal", help="File that keeps what was sent.")] = Path(
        "kernelbot-follow.csv"
    ),
    once: Annotated[bool, typer.Option("--once", help="Send what is there, and end.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=1, help="Seconds between two looks.")] = 10.0,
    schema: SchemaName = "leaderboard",
) -> None:
    """Send what is submitted to KernelBot to silent leaderboards here, too.

    It begins with what comes after its first start, and can be stopped and started at any time: the journal keeps
    what was sent. With --once the exit code is 1 if something could not be sent now.
    """
    from kernelcup.cli.credentials import Credentials
    from kernelcup.client.transport import Client
    from kernelcup_kernelbot.following import Follower

    address, token = Credentials.load(os.environ).find(server)
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
    schema: SchemaName = "leaderboard",
    config: ConfigOption = None,
) -> None:
    """Compare verdicts, times, places and waiting times of what was followed: a page and a CSV file."""
    from kernelcup_kernelbot.comparison import compare as compared
    from kernelcup_kernelbot.old_tables import opened

    with wiring.open_database(wiring.load_config(config)) as db, opened(url, schema) as tables:
        found = compared(tables, db)
    page.write_text(found.as_page(), encoding="utf-8")
    table.write_text(found.as_csv(), encoding="utf-8")
    typer.echo(f"{len(found.pairs)} results compared, {found.open} not judged here yet: {page}, {table}")


def _pairs(text: str) -> dict[str, str]:
    """Return names with the names that they have here."""
    halves = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    return {there.strip(): here.strip() or there.strip() for there, _, here in halves}


@app.command()
def back(
    url: OldUrl,
    since: Annotated[str, typer.Option("--since", help="When the switch was, as 2026-07-04T18:00Z.")],
    devices: Annotated[
        str, typer.Option("--devices", help="THERE=HERE for each GPU whose name here differs, with commas.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and write nothing.")] = False,
    schema: SchemaName = "leaderboard",
    config: ConfigOption = None,
) -> None:
    """Write what came since the switch into KernelBot's tables: all of it, or nothing after an error.

    Run again, it adds only what is new.
    """
    from kernelcup_kernelbot.old_tables import opened
    from kernelcup_kernelbot.returning import give_back

    gpus = {here.lower(): there for there, here in _pairs(devices).items()}
    moment = parse_opening(since)
    with wiring.open_database(wiring.load_config(config)) as db, opened(url, schema) as tables:
        found = give_back(tables, db, since=moment, gpus=gpus, dry_run=dry_run)
    typer.echo("\n".join([*found.lines(), *(["dry run: nothing was written"] if dry_run else [])]))
