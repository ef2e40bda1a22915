"""``kernelcup board``: make, list, show and delete leaderboards."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import board_settings as settings_of
from kernelcup.cli.options import (
    BoardArgument,
    ConfigOption,
    HarnessOption,
    JsonOption,
    LocalOption,
    ServerOption,
    TaskArgument,
    UserOption,
)
from kernelcup.cli.texts import plain

if TYPE_CHECKING:
    from kernelcup.cli.venue import Venue
    from kernelcup.client_forms import BoardInfo

app = typer.Typer(help="Make, list, show, change and delete leaderboards.", no_args_is_help=True)


@app.command()
def create(
    task: TaskArgument,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Default: the task's name.")] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            "-d",
            help="May be given several times; default: the best here, at a server those of the task.",
        ),
    ] = None,
    deadline: settings_of.DeadlineOption = None,
    opens: settings_of.OpensOption = None,
    freeze: settings_of.FreezeOption = None,
    closed: settings_of.ClosedOption = None,
    pseudonymous: settings_of.PseudonymousOption = None,
    code: settings_of.CodeOption = None,
    max_file_bytes: settings_of.SizeOption = None,
    review_tag: settings_of.ReviewTagOption = None,
    trust: settings_of.TrustOption = None,
    duel: settings_of.DuelOption = None,
    harness: HarnessOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Make a leaderboard from a task. A bare date as deadline means the end of that day."""
    from kernelcup.cli import options
    from kernelcup.cli.venue import open_venue

    given = settings_of.read(
        datetime.now(UTC),
        deadline=deadline,
        opens=opens,
        freeze=freeze,
        closed=closed,
        pseudonymous=pseudonymous,
        code=code,
        max_file_bytes=max_file_bytes,
        review_tags=review_tag,
        trust=trust,
        duel=duel,
    )
    kind = options.read_harness(harness)
    if kind is not None:
        given["harness"] = kind
    with open_venue(server, local, config) as venue:
        board = venue.create_board(task, name=name, devices=device or (), settings=given, user=user)
    if as_json:
        typer.echo(json.dumps(as_object(board)))
        return
    accepted = ", ".join(board.devices)
    typer.echo(plain(f"leaderboard {board.name} takes submissions on {accepted}; {times(board)}"))
    typer.echo(f"Next: kernelcup submit FILE --board {board.name}{venue.option}")


@app.command("list")
def list_all(
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """List all leaderboards."""
    from kernelcup.cli.venue import open_venue
    from kernelcup.domain import Visibility

    with open_venue(server, local, config) as venue:
        boards = venue.boards()
    if as_json:
        typer.echo(json.dumps({"leaderboards": [as_object(board) for board in boards]}))
        return
    if not boards:
        typer.echo("There is no leaderboard yet. Next: kernelcup board create TASK")
    for board in boards:
        closed = " (closed)" if board.visibility is Visibility.CLOSED else ""
        typer.echo(plain(f"{board.name}{closed}  [{', '.join(board.devices)}]  {times(board)}"))


@app.command()
def show(
    name: BoardArgument,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Show a leaderboard and the task behind it."""
    from kernelcup.cli.task import describe
    from kernelcup.cli.venue import open_venue

    with open_venue(server, local, config) as venue:
        board = find_board(venue, name)
        if as_json:
            typer.echo(json.dumps({**as_object(board), "task": venue.task_object(name)}))
            return
        task = venue.task(name)
    typer.echo(plain(f"{board.name} by {board.creator}: {', '.join(board.devices)}; {times(board)}"))
    typer.echo(f"{rules_text(board)}\n")
    describe(task)


@app.command()
def delete(
    name: BoardArgument,
    confirm: Annotated[
        str | None, typer.Option("--confirm", help="The name once more, instead of being asked for it.")
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = None,
    local: LocalOption = False,
    config: ConfigOption = None,
) -> None:
    """Delete a leaderboard with all its submissions.

    Their history goes too, for good.
    """
    from kernelcup.cli.venue import open_venue
    from kernelcup.errors import InvalidValue

    with open_venue(server, local, config) as venue:
        board = find_board(venue, name)
        if confirm is None and (as_json or not sys.stdin.isatty()):
            raise InvalidValue(f"nobody can be asked here; give --confirm {board.name}")
        typed = confirm if confirm is not None else typer.prompt(f"Type {board.name} to delete it for good")
        if typed != board.name:
            raise InvalidValue(f"{typed!r} is not {board.name!r}; nothing was deleted")
        venue.delete_board(name)
    if as_json:
        typer.echo(json.dumps({"deleted": board.name}))
    else:
        typer.echo(f"leaderboard {board.name} and all its submissions are deleted")


def find_board(venue: Venue, name: str) -> BoardInfo:
    """Return a leaderboard. Raise ``NotFound`` with what to do next."""
    from kernelcup.cli import platform
    from kernelcup.errors import NotFound

    with platform.pointing_to(f"kernelcup board list{venue.option}", NotFound):
        return venue.board(name)


def times(board: BoardInfo) -> str:
    """Say when a leaderboard opens and closes."""
    opens = f"opens {moment(board.opens_at)}; " if board.opens_at is not None else ""
    return opens + ("no deadline" if board.deadline is None else f"closes {moment(board.deadline)}")


def rules_text(board: BoardInfo) -> str:
    """Say which times rank, and what a new first place needs."""
    from kernelcup.domain import TrustRule

    which = "only audited times rank" if board.trust is TrustRule.AUDITED else "all times rank, marked"
    return f"{which}; a new first place must win a duel" if board.duel else which


def moment(utc: datetime) -> str:
    """Return a moment in UTC, and as clocks show it here if that is something else."""
    local = utc.astimezone()
    here = f" ({local:%Y-%m-%d %H:%M %Z} here)" if local.utcoffset() else ""
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC{here}"


def as_object(board: BoardInfo) -> dict[str, object]:
    """Return a leaderboard as ``--json`` prints it; a server does not tell the tags for review."""
    body: dict[str, object] = {
        "name": board.name,
        "devices": list(board.devices),
        "harness": board.harness.value,
        "task_hash": board.task_hash,
        "creator": board.creator,
        "opens_at": board.opens_at.isoformat() if board.opens_at else None,
        "deadline": board.deadline.isoformat() if board.deadline else None,
        "created_at": board.created_at.isoformat(),
        "visibility": board.visibility.value,
        "pseudonymous": board.pseudonymous,
        "code_policy": board.code_policy.value,
        "freeze_at": board.freeze_at.isoformat() if board.freeze_at else None,
        "max_file_bytes": board.max_file_bytes,
        "trust": board.trust.value,
        "duel": board.duel,
    }
    if board.review_tags is not None:
        body["review_tags"] = list(board.review_tags)
    return body
