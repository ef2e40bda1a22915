"""The tree of commands. Nothing heavy is imported here: a command imports databases, clients and rich when it runs."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from kernelcup.cli.admin import devices
from kernelcup.cli.author import board, board_sync, board_update, final, task
from kernelcup.cli.compete import (
    compare,
    joining,
    login,
    profile,
    replay,
    run,
    start,
    submissions,
    submit,
    tools,
)
from kernelcup.cli.help import ADMINISTER, AUTHOR, COMPETE, OPERATE, HelpGroup, LazyGroup, RootGroup
from kernelcup.cli.operate import bot, config_check, db, demo, doctor, env, runner, serve

app = typer.Typer(
    name="kernelcup",
    help="""Competitions for the fastest GPU kernel, with results that everyone can trust.

    Start with `kernelcup demo` on your own machine, or with `kernelcup login SERVER`, then `kernelcup start BOARD`.
    """,
    cls=RootGroup,
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


def add_lazy(parent: typer.Typer, name: str, module: str, text: str, panel: str | None = None) -> None:
    """Add a group whose commands a module returns when they are needed."""

    def load() -> dict[str, Any]:
        commands: dict[str, Any] = importlib.import_module(f"kernelcup.cli.{module}").commands()
        return commands

    group = type("Commands", (LazyGroup,), {"load": staticmethod(load), "finishers": []})
    empty = typer.Typer(help=text, no_args_is_help=True)
    parent.add_typer(empty, name=name, cls=group, rich_help_panel=panel)


board.app.command("update")(board_update.update)
board.app.command("sync")(board_sync.sync)
board.app.command("final")(final.final)
add_lazy(board.app, "webhook", "author.webhooks", "Send a leaderboard's news to an https address.")
add_lazy(
    board.app, "export", "author.exports", "Export files, results and winners, and list files that are alike."
)
app.command("start", rich_help_panel=COMPETE)(start.start)
app.command("run", rich_help_panel=COMPETE)(run.run)
app.command("submit", rich_help_panel=COMPETE)(submit.submit)
app.command("profile", rich_help_panel=COMPETE)(profile.profile)
app.command("watch", rich_help_panel=COMPETE)(submit.watch)
app.command("cancel", rich_help_panel=COMPETE)(submit.cancel)
app.add_typer(submissions.app, name="submissions", cls=HelpGroup, rich_help_panel=COMPETE)
app.command("replay", rich_help_panel=COMPETE)(replay.replay)
app.command("compare", rich_help_panel=COMPETE)(compare.compare)
app.command("standings", rich_help_panel=COMPETE)(submit.standings)
app.command("budget", rich_help_panel=COMPETE)(joining.budget)
app.command("join", rich_help_panel=COMPETE)(joining.join)
app.command("mcp", rich_help_panel=COMPETE)(tools.mcp)
app.command("login", rich_help_panel=COMPETE)(login.login)
app.command("logout", rich_help_panel=COMPETE)(login.logout)
app.command("whoami", rich_help_panel=COMPETE)(login.whoami)
add_lazy(
    app, "account", "compete.account", "Your news, your shown name, your data; delete the account.", COMPETE
)
app.add_typer(task.app, name="task", cls=HelpGroup, rich_help_panel=AUTHOR)
app.add_typer(board.app, name="board", cls=HelpGroup, rich_help_panel=AUTHOR)
add_lazy(
    app, "course", "author.course", "Courses: leaderboards with one register of people, and grades.", AUTHOR
)
add_lazy(
    app, "event", "author.event", "Events of leaderboards: registration, teams, a table of points.", AUTHOR
)
add_lazy(app, "admin", "admin.tree", "Commands for operators and leaderboard managers.", ADMINISTER)
app.command("devices", rich_help_panel=ADMINISTER)(devices.devices)
app.command("demo", rich_help_panel=OPERATE)(demo.demo)
app.command("doctor", rich_help_panel=OPERATE)(doctor.doctor)
app.command("serve", rich_help_panel=OPERATE)(serve.serve)
app.command("bot", rich_help_panel=OPERATE)(bot.bot)
app.add_typer(runner.app, name="runner", cls=HelpGroup, rich_help_panel=OPERATE)
app.add_typer(db.app, name="db", cls=HelpGroup, rich_help_panel=OPERATE)
app.add_typer(env.app, name="env", cls=HelpGroup, rich_help_panel=OPERATE)
app.add_typer(config_check.app, name="config", cls=HelpGroup, rich_help_panel=OPERATE)
