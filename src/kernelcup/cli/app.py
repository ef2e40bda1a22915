"""The tree of commands. Only typer is imported here; each command imports its dependencies when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelcup.cli.admin import devices, limits, members, pause, reviews, stats, users
from kernelcup.cli.author import board, board_sync, board_update, final, task, webhooks
from kernelcup.cli.compete import compare, login, replay, run, submissions, submit
from kernelcup.cli.operate import bot, config_check, db, demo, doctor, serve

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


app.command("run")(run.run)
app.add_typer(task.app, name="task")
board.app.command("update")(board_update.update)
board.app.command("sync")(board_sync.sync)
board.app.command("final")(final.final)
board.app.add_typer(webhooks.app, name="webhook")
app.add_typer(board.app, name="board")
app.command("submit")(submit.submit)
app.command("watch")(submit.watch)
app.command("cancel")(submit.cancel)
app.add_typer(submissions.app, name="submissions")
app.command("replay")(replay.replay)
app.command("compare")(compare.compare)
app.command("standings")(submit.standings)
app.command("budget")(members.budget)
app.command("join")(members.join)
app.command("serve")(serve.serve)
app.command("bot")(bot.bot)
app.add_typer(db.app, name="db")
app.add_typer(config_check.app, name="config")
app.command("devices")(devices.devices)
devices.admin.command("stats")(stats.stats)
devices.admin.add_typer(users.user, name="user")
devices.admin.add_typer(users.token, name="token")
devices.admin.command("audit")(users.audit)
devices.admin.add_typer(limits.limit, name="limit")
devices.admin.add_typer(limits.late, name="late")
devices.admin.command("pause")(pause.pause)
devices.admin.command("start")(pause.start)
devices.admin.command("pauses")(pause.list_pauses)
devices.admin.add_typer(members.invite, name="invite")
devices.admin.add_typer(members.members, name="members")
devices.admin.command("freeze")(limits.freeze)
devices.admin.command("unveil")(limits.unveil)
devices.admin.command("rejudge")(reviews.rejudge)
devices.admin.add_typer(reviews.reviews, name="reviews")
devices.admin.command("quarantine")(reviews.quarantine)
app.add_typer(devices.admin, name="admin")
app.command("login")(login.login)
app.command("logout")(login.logout)
app.command("whoami")(login.whoami)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
