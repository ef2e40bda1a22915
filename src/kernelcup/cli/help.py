"""How ``--help`` shows commands: in groups, with whole summaries and the usual words for values."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from kernelcup.cli import exit_codes
from kernelcup.cli.completion import offer_names

COMPETE, AUTHOR, ADMINISTER, OPERATE = PANELS = ("Compete", "Author", "Administer", "Operate")

VALUES = {"path": "FILE", "int": "N", "float": "NUMBER"}
"""What stands for a value of a type that is called so; TEXT for all others."""


class HelpGroup(TyperGroup):
    """A group of commands; without arguments it shows its help and succeeds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help if there are no arguments."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(exit_codes.OK)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Return a command, finished."""
        return finished(super().get_command(ctx, name))

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write a section for each panel, with the first paragraph of each command's help."""
        panels: dict[str, list[tuple[str, str]]] = {title: [] for title in PANELS}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            title = panel if isinstance(panel, str) else "Commands"
            summary = " ".join((command.help or "").partition("\n\n")[0].split())
            panels.setdefault(title, []).append((name, summary))
        for title, rows in filter(all, panels.items()):
            with formatter.section(title):
                formatter.write_dl(rows)


class LazyGroup(HelpGroup):
    """A group whose commands are imported when they are needed; they may need a database's library."""

    load: ClassVar[Callable[[], dict[str, Any]]]
    """Returns the commands by name."""

    @property
    def commands(self) -> Any:
        """The commands by name."""
        return type(self).load()

    @commands.setter
    def commands(self, _given: Any) -> None:
        """Ignore the commands that a group is made with."""


def lazy(module: str, text: str) -> typer.Typer:
    """Return a group whose commands a module returns when they are needed."""
    load = cache(lambda: importlib.import_module(f"kernelcup.cli.{module}").commands())
    group = type("Commands", (LazyGroup,), {"load": staticmethod(load)})
    return typer.Typer(help=text, no_args_is_help=True, cls=group)


def made(name: str, found: typer.Typer | Callable[..., None], panel: str | None = None) -> Any:
    """Return a group or a command as the command line has it."""
    parent = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name, cls=found.info.cls or HelpGroup, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(found)
    return typer.main.get_group(parent).commands[name]


def finished(command: Any) -> Any:
    """Give the parameters of a command the usual words for their values, and a shell what to offer for them."""
    for param in () if command is None else command.params:
        if param.param_type_name == "argument":
            show_name_only(param)
        elif param.metavar is None and not param.is_flag:
            param.metavar = value_word(param)
        offer_names(param)
    return command


def value_word(option: Any) -> str:
    """Return what stands for an option's value."""
    # Newer versions of typer keep the annotation, older ones a type with a name.
    known = getattr(option, "type_descriptor", None)
    kind = str(option.type.name if known is None else known.annotation).lower()
    return next((word for name, word in VALUES.items() if name in kind), "TEXT")


def show_name_only(argument: Any) -> None:
    """Show an argument by its name alone, without its type: ``FILE``, or ``[FILE]`` if it may be left out."""
    name = str(argument.metavar or argument.name.upper()).strip("[]")
    argument.display_type_rich = lambda ctx: ""  # noqa: ARG005 - as typer calls it
    argument.get_usage_pieces = lambda ctx: [name if argument.required else f"[{name}]"]  # noqa: ARG005
