"""The commands ``kernelcup kernelbot ...``."""

from __future__ import annotations

import typer

from kernelcup.cli.help import HelpGroup

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
