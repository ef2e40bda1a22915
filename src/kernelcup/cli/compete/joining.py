"""``kernelcup join`` and ``budget``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.compete.login import budget_object, budget_text
from kernelcup.cli.compete.submit import board_device
from kernelcup.cli.options import BoardArgument, JsonOption, UserOption
from kernelcup.cli.show.output import plain
from kernelcup.errors import Conflict, NotFound


@with_backend
def join(
    backend: Backend,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code, in any spelling.")],
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Join the courses that an invite code opens, with all their leaderboards."""
    from kernelcup.app.courses import joining

    again = "ask the person who gave you the code for a new one"
    with wiring.pointing_to(again, NotFound), wiring.pointing_to(again, Conflict):
        joined = backend.call(joining.join, as_user=user, code=code)
    if as_json:
        typer.echo(json.dumps({"leaderboards": joined.leaderboards, "courses": joined.courses}))
        return
    names = joined.leaderboards or joined.courses
    kind = "board" if joined.leaderboards else "course"
    typer.echo(
        plain(f"You belong to {', '.join(names)}. Next: kernelcup {kind} show {names[0]}{backend.option}")
    )


@with_backend
def budget(
    backend: Backend,
    board: BoardArgument,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Only this one; default: all.")
    ] = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how much you may still submit to a leaderboard, for each limit."""
    from kernelcup.app.rules import limits

    known = backend.board(board)
    devices = known.devices if device is None else (board_device(known, device),)
    left = {
        name: backend.call(limits.budget, as_user=user, board=known.name, device=name) for name in devices
    }
    if as_json:
        body = {name: [budget_object(part) for part in parts] for name, parts in left.items()}
        typer.echo(json.dumps({"leaderboard": known.name, "budget": body}))
        return
    for name, parts in left.items():
        typer.echo(plain(f"{known.name} on {name}: {budget_text(parts)}"))
