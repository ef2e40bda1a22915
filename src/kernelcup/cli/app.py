"""The tree of commands. Only typer is imported here; each command imports its dependencies when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelcup.cli import (
    accounts,
    board,
    board_admin,
    bot,
    comparing,
    competing,
    database,
    demo,
    devices,
    doctor,
    judging,
    login,
    members,
    pausing,
    replaying,
    reviewing,
    rules,
    screening,
    serving,
    settings,
    submissions,
    task,
    webhooks,
)

app = typer.Typer(
    name="kernelcup",
    help="Competitions for the fastest GPU kernel, with results that everyone can trust.",
    epilog="Start with: kernelcup demo. Exit codes are listed in: kernelcup run --help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from kernelcup import __version__

        typer.echo(f"kernelcup {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Competitions for the fastest GPU kernel, with results that everyone can trust."""


app.command("run")(judging.run)
app.add_typer(task.app, name="task")
board.app.command("update")(board_admin.update)
board.app.command("sync")(board_admin.sync)
board.app.add_typer(webhooks.app, name="webhook")
app.add_typer(board.app, name="board")
app.command("submit")(competing.submit)
app.command("screen")(screening.screen)
app.command("watch")(competing.watch)
app.command("cancel")(competing.cancel)
app.add_typer(submissions.app, name="submissions")
app.command("replay")(replaying.replay)
app.command("compare")(comparing.compare)
app.command("standings")(competing.standings)
app.command("budget")(members.budget)
app.command("join")(members.join)
app.command("serve")(serving.serve)
app.command("bot")(bot.bot)
app.add_typer(database.app, name="db")
app.add_typer(settings.app, name="config")
app.command("devices")(devices.devices)
devices.admin.command("stats")(board_admin.stats)
devices.admin.add_typer(accounts.user, name="user")
devices.admin.add_typer(accounts.token, name="token")
devices.admin.command("audit")(accounts.audit)
devices.admin.add_typer(rules.limit, name="limit")
devices.admin.add_typer(rules.late, name="late")
devices.admin.command("pause")(pausing.pause)
devices.admin.command("start")(pausing.start)
devices.admin.command("pauses")(pausing.list_pauses)
devices.admin.add_typer(members.invite, name="invite")
devices.admin.add_typer(members.members, name="members")
devices.admin.command("freeze")(rules.freeze)
devices.admin.command("unveil")(rules.unveil)
devices.admin.command("rejudge")(reviewing.rejudge)
devices.admin.add_typer(reviewing.reviews, name="reviews")
devices.admin.command("quarantine")(reviewing.quarantine)
app.add_typer(devices.admin, name="admin")
app.command("login")(login.login)
app.command("logout")(login.logout)
app.command("whoami")(login.whoami)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
