"""The tree of commands. Each is imported when it is needed, and imports databases, clients and rich when it runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from kernelcup.cli import VERSION
from kernelcup.cli.help import ADMINISTER, AUTHOR, COMPETE, OPERATE, RootGroup, lazy, made

PLACES = {
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
        "account": "compete.account:commands",
    },
    AUTHOR: {
        "task": "author.task:app",
        "board": "author.tree:app",
        "course": "author.course:commands",
        "event": "author.event:commands",
    },
    ADMINISTER: {"devices": "admin.devices:devices", "admin": "admin.tree:commands"},
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
HELP = {
    "account": "Your news, your shown name, your data; delete the account.",
    "course": "Courses: leaderboards with one register of people, and grades.",
    "event": "Events of leaderboards: registration, teams, a table of points.",
    "admin": "Commands for operators and leaderboard managers.",
}
"""Groups whose help needs no import: their modules import the operations."""


class Tree(Mapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, attribute = PLACES[PANELS[name]][name].split(":")
            found = (
                lazy(module, HELP[name])
                if name in HELP
                else getattr(importlib.import_module(f"kernelcup.cli.{module}"), attribute)
            )
            self._made[name] = made(name, found, PANELS[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(PANELS)

    def __len__(self) -> int:
        return len(PANELS)


class Root(RootGroup):
    """The whole command line."""

    load = Tree


app = typer.Typer(
    name="kernelcup",
    help="""Competitions for the fastest GPU kernel, with results that everyone can trust.

    Start with `kernelcup demo` on your own machine, or with `kernelcup login SERVER`, then `kernelcup start BOARD`.
    """,
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Competitions for the fastest GPU kernel, with results that everyone can trust."""
