"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelcup.errors import InvalidValue
from kernelcup_harness.protocol import HarnessKind, Mode

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ModeOption = Annotated[
    str, typer.Option("--mode", "-m", help="test, benchmark, profile or leaderboard (also: ranked).")
]
HarnessOption = Annotated[
    str | None,
    typer.Option(
        "--harness", help="standard (ours) or own (the task's eval.py); default: the task's choice."
    ),
]
BoardHarnessOption = Annotated[
    str | None,
    typer.Option(
        "--harness",
        help="standard (ours) or own (the task's eval.py); default: standard, if the task's own solutions "
        "pass under it.",
    ),
]
UserOption = Annotated[
    str | None, typer.Option("--user", "-u", help="Your user name; default: your login name.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file; default: $KERNELCUP_CONFIG or kernelcup.toml in $KERNELCUP_HOME.",
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Use this server; default: $KERNELCUP_SERVER, else the one of `kernelcup login`, else none.",
    ),
]
LocalOption = Annotated[
    bool, typer.Option("--local", help="Use this machine's database instead of a server.")
]
TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK", help="Folder, zip, .py file, or the name of a shipped task.")
]
AnyTaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Folder, zip, .py file, or the name of a shipped task or of a leaderboard (board:NAME).",
    ),
]
BoardArgument = Annotated[str, typer.Argument(metavar="BOARD", help="Name of the leaderboard.")]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
SubmissionFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The submission: a file, a folder or a zip.")
]
SubmissionId = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="Number of the submission.")
]


def read_mode(text: str) -> Mode:
    """Return the mode with that name. Raise ``InvalidValue``."""
    word = text.lower()
    if word == "ranked":
        return Mode.LEADERBOARD
    try:
        return Mode(word)
    except ValueError:
        raise InvalidValue(
            f"--mode {text}: expected test, benchmark, profile, leaderboard or ranked"
        ) from None


def read_harness(text: str | None) -> HarnessKind | None:
    """Return the harness with that name. Raise ``InvalidValue``."""
    if text is None:
        return None
    try:
        return HarnessKind(text.lower())
    except ValueError:
        raise InvalidValue(f"--harness {text}: expected standard or own") from None
