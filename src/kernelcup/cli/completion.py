"""Completion in a shell: besides commands and options the names of leaderboards and devices."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any

VARIABLE = "_KERNELCUP_COMPLETE"
"""The environment variable by which a shell asks for completion."""


def complete(commands: Callable[[], Any]) -> None:
    """Answer a shell that asks for completion, and end the process; return if none asks."""
    if not os.environ.get(VARIABLE):
        return
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    commands()._main_shell_completion({}, "kernelcup", VARIABLE)


def offer_names(param: Any) -> None:
    """Complete leaderboards and devices in a parameter that takes them."""
    if param.name == "board" or "BOARD" in str(param.metavar or ""):
        param._custom_shell_complete = quietly(boards)
    elif param.name == "device":
        param._custom_shell_complete = quietly(devices)


def quietly(find: Callable[[dict[str, Any]], list[str]]) -> Callable[[Any, Any, str], list[str]]:
    """Return a function that a shell may call: it prints nothing, and finds nothing where an error is raised."""

    def found(ctx: Any, _param: Any, begin: str) -> list[str]:
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                names = find(ctx.params)
            except Exception:  # a traceback on the command line that is being typed helps no one
                return []
        return [name for name in names if name.lower().startswith(begin.lower())]

    return found


def boards(given: dict[str, Any]) -> list[str]:
    """Return the leaderboards of the place that the options given so far name."""
    return list(known_boards(given))


def devices(given: dict[str, Any]) -> list[str]:
    """Return the devices of the leaderboard that is given, else those of all leaderboards and of this machine."""
    from kernelcup.cli import wiring

    known = known_boards(given)
    if (board := given.get("board") or given.get("name")) in known:
        return known[board]
    here = [device.name for device in wiring.load_config(given.get("config")).devices]
    return sorted({*here, *(name for names in known.values() for name in names)})


def known_boards(given: dict[str, Any]) -> dict[str, list[str]]:
    """Return the devices of each leaderboard by its name."""
    from kernelcup.cli.backend.choosing import open_backend

    with open_backend(given.get("server"), bool(given.get("local")), given.get("config")) as backend:
        return {board.name: list(board.devices) for board in backend.boards()}
