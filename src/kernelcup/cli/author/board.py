"""``kernelcup board``: create, list, show and delete leaderboards."""

from __future__ import annotations

import functools
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.app.boards.settings import BoardChanges
from kernelcup.cli import options, wiring
from kernelcup.cli.author import board_settings as settings_of
from kernelcup.cli.author.task import describe, pick_template, print_sources
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import BoardArgument, BoardHarnessOption, JsonOption, TaskArgument, UserOption
from kernelcup.cli.show.boards import no_board, rules_text, times
from kernelcup.cli.show.output import plain
from kernelcup.domain import Visibility
from kernelcup.errors import BrokenChecker, InvalidValue, OwnHarnessNeeded
from kernelcup_harness.protocol import HarnessKind

if TYPE_CHECKING:
    from kernelcup.app.boards.local_trial import LocalTrial
    from kernelcup.client.models import BoardInfo
    from kernelcup.client.task_upload import TaskAt

app = typer.Typer(help="Create, list, show, change and delete leaderboards.", no_args_is_help=True)


@app.command()
@with_backend
@settings_of.with_settings
def create(
    backend: Backend,
    task: TaskArgument,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Default: the task's name.")] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            "-d",
            help="May be repeated; default: this machine's best device, or on a server the devices that "
            "the task names.",
        ),
    ] = None,
    *,
    given: BoardChanges,
    harness: BoardHarnessOption = None,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Whether the task is tried first, a few seconds.")
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Create it although its checker accepts wrong answers.")
    ] = False,
    over: Annotated[
        bool, typer.Option("--over", help="Its deadline may have passed: it is over from the start.")
    ] = False,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a leaderboard from a task. A date without a time, as the deadline, means the end of that day."""
    from kernelcup.app.boards import managing
    from kernelcup.reporting.phrases import code_rule

    kind = options.read_harness(harness)
    if kind is not None:
        given["harness"] = kind
    if device or backend.server is None:
        given["devices"] = device or proposed_devices(task, backend)
    call = functools.partial(
        backend.call,
        managing.create,
        task=task_at(task),
        name=name,
        changes=given,
        run=run,
        force=force,
        over=over,
        as_user=user,
    )
    board = make(backend, task, call, given, run=run, as_json=as_json)
    if as_json:
        typer.echo(json.dumps({**board.as_object(), "notes": list(board.notes)}))
        return
    accepted = ", ".join(board.devices)
    typer.echo(plain(f"leaderboard {board.name} takes submissions on {accepted}; {times(board)}"))
    if backend.server is None and user is None:
        typer.echo(plain(f"Its owner is {board.creator}; choose another owner with --user NAME."))
    keep = " --code never keeps it to its authors." if board.publishes_code else ""
    typer.echo(f"{code_rule(board)}{keep}")
    for note in board.notes:
        typer.echo(plain(note))
    typer.echo(f"Next: kernelcup submit FILE --board {board.name}{backend.option}")


def proposed_devices(task: str, backend: Backend) -> list[str]:
    """Return the devices that the task proposes and this machine has, else the best of this machine."""
    known = {each.name.lower() for each in backend.config.devices}
    return [each for each in task_at(task)().devices if each.lower() in known] or [
        backend.config.devices[0].name
    ]


def make(
    backend: Backend,
    task: str,
    call: Callable[..., Any],
    settings: BoardChanges,
    *,
    run: bool,
    as_json: bool,
) -> BoardInfo:
    """Create a leaderboard; ask first where only the task's own harness can judge it, or its checker is broken.

    Raise ``OwnHarnessNeeded`` or ``BrokenChecker`` without a terminal to ask on, or for JSON.
    """
    from kernelcup.cli.show.working import working

    def create(about: str, *, quiet: bool = False, **confirmed: bool) -> BoardInfo:
        with working(about, quiet=quiet, has_steps=True) as say:
            made: BoardInfo = call(trial=trial_of(backend, task, say) if run else None, **confirmed)
            return made

    try:
        return create(f"trying {task} before its leaderboard is created", quiet=as_json)
    except (OwnHarnessNeeded, BrokenChecker) as error:
        is_broken = isinstance(error, BrokenChecker)
        if as_json or not sys.stdin.isatty():
            option = "--force" if is_broken else "--harness own"
            error.add_note(f"kernelcup board create {shlex.quote(task)} {option}{backend.option}")
            raise
        typer.echo(plain(str(error)))
        typer.confirm(
            "Create it with this checker?" if is_broken else "Create it with the task's own harness?",
            abort=True,
        )
    about = f"creating the leaderboard of {task}"
    if is_broken:
        return create(about, force=True)
    settings["harness"] = HarnessKind.OWN
    return create(about)


def task_at(text: str) -> TaskAt:
    """Return the task of a TASK argument, to be loaded here or sent. Raise ``NotFound``."""
    from kernelcup.client.task_upload import TaskAt

    return TaskAt(wiring.task_path(text))


def trial_of(backend: Backend, task: str, say: Callable[[str], None]) -> LocalTrial | None:
    """Return what tries a task on this machine; say that a server tries it, if one does."""
    if backend.server is None:
        return wiring.make_trial(backend.config, say)
    say(f"{task}: {backend.server} tries the task")
    return None


@app.command("list")
@with_backend
def list_all(backend: Backend, as_json: JsonOption = False) -> None:
    """List all leaderboards."""
    boards = backend.boards()
    if as_json:
        typer.echo(json.dumps({"leaderboards": [board.as_object() for board in boards]}))
        return
    if not boards:
        typer.echo(no_board(backend))
    for board in boards:
        audience = " (members only)" if board.visibility is Visibility.CLOSED else ""
        typer.echo(plain(f"{board.name}{audience}  [{', '.join(board.devices)}]  {times(board)}"))


@app.command()
@with_backend
def show(backend: Backend, name: BoardArgument, as_json: JsonOption = False) -> None:
    """Show a leaderboard and the task behind it."""
    from kernelcup.app.submissions import handout
    from kernelcup.cli.author.final import find as find_final
    from kernelcup.cli.author.final import print_final
    from kernelcup.cli.show import terminal
    from kernelcup.cli.show.output import fields

    board = backend.board(name)
    finals = [
        each for device in board.devices if (each := find_final(backend, board.name, device)) is not None
    ]
    if as_json:
        told = {**board.as_object(), "finals": list(map(fields, finals))}
        told |= {"task": task_object(backend, board.name)}
        typer.echo(json.dumps(told))
        return
    task = backend.call(handout.show_task, name=board.name)
    typer.echo(plain(f"{board.name} by {board.creator}: {', '.join(board.devices)}; {times(board)}"))
    if board.notice:
        typer.echo(plain(f"Note: {board.notice}"))
    typer.echo(rules_text(board))
    for final in finals:
        print_final(terminal.console(), final)
    typer.echo("")
    describe(task)


def task_object(backend: Backend, board: str) -> dict[str, object]:
    """Return a leaderboard's task as ``--json`` prints it, without its hidden cases."""
    from kernelcup.app.submissions import handout
    from kernelcup.cli.show.output import json_object, without_hidden

    info = backend.call(handout.show_task, name=board)
    counts = json_object(info, "content_hash", "hidden_tests", "hidden_benchmarks")
    return without_hidden(backend.whole_task(board)) | counts


@app.command()
@with_backend
def get(
    backend: Backend,
    name: BoardArgument,
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", help="A new or empty folder; default: a folder with the leaderboard's name."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a leaderboard's task into a folder: statement, reference, cases, templates.

    Hidden cases are left out. The folder is a complete task, which you can run and change.
    """
    from kernelcup.tasks.writer import template_files, write_task

    task = backend.whole_task(backend.board(name).name)
    written = write_task(task, Path(task.name) if directory is None else directory)
    if as_json:
        typer.echo(json.dumps({"leaderboard": task.name, "files": [str(path) for path in written]}))
        return
    for path in written:
        typer.echo(plain(str(path)))
    first = written[0]
    place = first.parent if first.name == "task.yml" else first
    template = next(iter(template_files(task).values()), None)
    file = "FILE" if template is None else str(first.parent / template)
    typer.echo(f"Next: {shlex.join(['kernelcup', 'run', str(place), file])}")


@app.command()
@with_backend
def template(
    backend: Backend,
    name: BoardArgument,
    language: Annotated[
        str | None, typer.Option("--language", "--lang", "-l", help="Python, Triton, cu, ...")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a starting point for a submission, with the leaderboard's directive."""
    task = backend.whole_task(backend.board(name).name)
    print_sources(pick_template(task, language), as_json=as_json)


@app.command()
@with_backend
def delete(
    backend: Backend,
    name: BoardArgument,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", help="The leaderboard's name again, instead of the prompt for it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a leaderboard with all its submissions.

    Their history is deleted too, permanently.
    """
    from kernelcup.app.boards import boards

    board = backend.board(name)
    if confirm is None and (as_json or not sys.stdin.isatty()):
        raise InvalidValue(f"not a terminal: confirm with --confirm {board.name}")
    typed = confirm if confirm is not None else typer.prompt(f"Type {board.name} to delete it permanently")
    if typed != board.name:
        raise InvalidValue(f"{typed!r} is not {board.name!r}; nothing was deleted")
    backend.call(boards.delete_board, name=board.name, confirm=board.name)
    if as_json:
        typer.echo(json.dumps({"deleted": board.name}))
    else:
        typer.echo(f"leaderboard {board.name} and all its submissions are deleted")
