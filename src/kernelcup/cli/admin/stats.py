"""``kernelcup admin stats``: how much was submitted and judged."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from kernelcup.app.stats import Stats
from kernelcup.app.stats import stats as figures
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import JsonOption
from kernelcup.cli.show import tables, terminal
from kernelcup.cli.show.output import fields
from kernelcup.reporting.phrases import plural


@with_backend
def stats(
    backend: Backend,
    board: Annotated[str | None, typer.Option("--board", help="Only for this leaderboard.")] = None,
    last_day: Annotated[bool, typer.Option("--last-day", help="Only submissions since then.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how much was submitted and judged."""
    now = datetime.now(UTC)
    since = now - timedelta(days=1) if last_day else None
    found = backend.call(figures, board=board, since=since)
    if as_json:
        typer.echo(json.dumps(fields(found)))
    else:
        show_stats(found)


def show_stats(found: Stats) -> None:
    """Print figures for people."""
    where = f"leaderboard {found.board}" if found.board is not None else "all leaderboards"
    when = "" if found.since is None else f" since {found.since:%Y-%m-%d %H:%M:%S} UTC"
    typer.echo(
        f"{where}{when}: {plural(found.submissions, 'submission')} ({found.unique_codes} different) "
        f"by {plural(found.users, 'user')}; {plural(found.waiting, 'job waits', 'jobs wait')}, {found.running} run"
    )
    out = terminal.console()
    if found.devices:
        columns = ("device", "runs", "passed", "scored", "mean delay", "longest delay", "run time")
        table = tables.new_table(*columns, right=columns[1:])
        for each in found.devices:
            delays = (seconds(each.mean_delay_s), seconds(each.longest_delay_s))
            cells = (each.device, each.runs, each.passed, each.scored, *delays, seconds(each.run_s))
            table.add_row(*map(tables.cell, cells))
        tables.print_table(out, "Devices", table, drop=("longest delay", "scored", "mean delay"))
    if found.top_users:
        table = tables.new_table("user", "run time", right=("run time",))
        for user in found.top_users:
            table.add_row(tables.cell(user.user), tables.cell(seconds(user.run_s)))
        tables.print_table(out, "Most time on devices", table)


def seconds(value: float | None) -> str:
    """Return a number of seconds as people read it."""
    return "-" if value is None else f"{value:.1f} s"
