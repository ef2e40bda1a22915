"""The tree of commands. Each is imported when it is needed, and imports databases, clients and rich when it runs."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Annotated, Any

import typer

from kernelcup import __version__, extensions
from kernelcup.cli import exit_codes
from kernelcup.cli.help import ADMINISTER, AUTHOR, COMPETE, OPERATE, LazyGroup, finished, lazy, made

PLACES: dict[str, dict[str, Any]] = {
    COMPETE: {
        "start": "compete.start:start",
        "run": "compete.run:run",
        "submit": "compete.submit:submit",
        "profile": "compete.profile:profile",
        "watch": "compete.submit:watch",
        "cancel": "compete.submit:cancel",
        "replay": "compete.replay:replay",
        "compare": "compete.compare:compare",
        "standings": "compete.submit:standings",
        "budget": "compete.joining:budget",
        "join": "compete.joining:join",
        "mcp": "compete.tools:mcp",
        "login": "compete.login:login",
        "logout": "compete.login:logout",
        "whoami": "compete.login:whoami",
        "submissions": "compete.submissions:app",
        "account": lazy("compete.account", "Your news, your shown name, your data; delete the account."),
    },
    AUTHOR: {
        "task": "author.task:app",
        "board": "author.tree:app",
        "course": lazy("author.course", "Courses: leaderboards with one register of people, and grades."),
        "event": lazy("author.event", "Events of leaderboards: registration, teams, a table of points."),
    },
    ADMINISTER: {
        "devices": "admin.devices:devices",
        "admin": lazy("admin.tree", "Commands for operators and leaderboard managers."),
    },
    OPERATE: {
        "demo": "operate.demo:demo",
        "doctor": "operate.doctor:doctor",
        "serve": "operate.serve:serve",
        "bot": "operate.bot:bot",
        "runner": "operate.runner:app",
        "db": "operate.db:app",
        "env": "operate.env:app",
        "config": "operate.config_check:app",
    },
}
PANELS = {name: panel for panel, places in PLACES.items() for name in places}


@cache
def find(name: str) -> Any:
    """Import a command or a group."""
    place = PLACES[PANELS[name]][name]
    if isinstance(place, str):
        module, attribute = place.split(":")
        place = getattr(importlib.import_module(f"kernelcup.cli.{module}"), attribute)
    return made(name, place, PANELS[name])


class RootGroup(LazyGroup):
    """The whole command line, with the commands of extensions; its help ends with the exit codes of all commands."""

    load = cache(lambda: {name: find(name) for name in PANELS})

    def get_command(self, _ctx: Any, name: str) -> Any:
        """Return a command, an extension's too, which is loaded when it is asked for."""
        if name in PANELS:
            return finished(find(name))
        added = extensions.command(name)
        return None if added is None else finished(made(name, added))

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*PANELS, *extensions.command_names()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by panels, those of extensions at the end."""
        super().format_commands(ctx, formatter)
        # Not as commands: typer imports pydantic to make these.
        added = [(name, extensions.command(name).info.help or "") for name in extensions.command_names()]
        if added:
            with formatter.section("Extensions"):
                formatter.write_dl(added)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the exit codes, and where to start."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in exit_codes.MEANINGS.items()])
        super().format_epilog(ctx, formatter)


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
        typer.echo(f"kernelcup {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Competitions for the fastest GPU kernel, with results that everyone can trust."""
