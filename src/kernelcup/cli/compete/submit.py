"""``kernelcup submit``, ``watch``, ``cancel`` and ``standings``."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import options, wiring
from kernelcup.cli.backend.base import Ask, Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.compete.submissions import finish, listing
from kernelcup.cli.options import JsonOption, ModeOption, SubmissionFile, SubmissionId, UserOption
from kernelcup.cli.show.boards import moment, no_board
from kernelcup.cli.show.output import fields, plain
from kernelcup.errors import (
    ConflictingBoards,
    DeviceNeeded,
    InvalidValue,
    LeaderboardNeeded,
    NotFound,
    ServerUnavailable,
    UnknownDevice,
    WaitOver,
)
from kernelcup.reporting.phrases import plural
from kernelcup_harness.protocol import Mode

PAGE = 200
"""Places that are asked for at once."""

if TYPE_CHECKING:
    from kernelcup.client.models import BoardInfo
    from kernelcup.domain import Standing, Table


@with_backend
def submit(
    backend: Backend,
    file: SubmissionFile,
    board: Annotated[
        str | None,
        typer.Option("--board", "-b", help="Leaderboard; default: `#!POPCORN leaderboard NAME` in the file."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device", "--gpu", "-d", help="May be repeated; default: `#!POPCORN gpus A B` in the file."
        ),
    ] = None,
    mode: ModeOption = "leaderboard",
    user: UserOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the report and show it.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Submit FILE, or the files of a folder or zip, to a leaderboard, by default ranked.

    A server judges it; Ctrl-C stops only the wait, which `kernelcup watch` resumes. Without a
    server this machine judges it now; where `kernelcup serve` runs, or with --no-wait, that does. Exit codes as for
    `kernelcup run`; with several devices, that of the first verdict that is not accepted.
    """
    from kernelcup.app.submissions.submit import read_tree

    name, content = wiring.read_submission(file)
    warn_near_misses(read_tree(name, content).code)
    ask = Ask(
        file_name=name,
        content=content,
        mode=options.read_mode(mode),
        board=board,
        devices=tuple(device or ()),
        user=user,
    )
    list_boards = f"kernelcup board list{backend.option}"
    if wait:
        backend.check_judges()  # refuse before anything is stored
    with (
        wiring.pointing_to(list_boards, NotFound),
        wiring.pointing_to(list_boards, LeaderboardNeeded),
        wiring.pointing_to("name it with --device", DeviceNeeded),
        wiring.pointing_to(list_boards, UnknownDevice),
        wiring.pointing_to("leave --board out, or change the line in the file", ConflictingBoards),
    ):
        submission = backend.submit(ask)
    if not as_json:
        names = ", ".join(submission.devices)
        typer.echo(plain(f"submission {submission.id} to {submission.leaderboard} ({names})"))
        if ask.mode is Mode.LEADERBOARD:
            say_code_rule(backend.board(submission.leaderboard))
    if wait:
        backend.judge(submission, quiet=as_json)
    back = f"kernelcup watch {submission.id}{backend.option}   (the submission is stored)"
    with wiring.pointing_to(back, ServerUnavailable):
        if not wait and not as_json:
            say_queued(backend, submission.id)
        finish(backend, submission.id, as_json=as_json, silent=not wait)


def warn_near_misses(code: str) -> None:
    """Warn on stderr about comments that look like a directive but are not read as one."""
    from kernelcup.app.submissions.directives import near_misses

    for text in near_misses(code):
        typer.echo(plain(f"warning: {text}"), err=True)


def say_code_rule(board: BoardInfo) -> None:
    """Say who will see the code, where that is not its author alone, and under which licence it is."""
    from kernelcup.reporting.phrases import code_rule, licence_rule

    if board.publishes_code and board.deadline is not None:
        typer.echo(code_rule(board))
    if board.licence:
        typer.echo(plain(licence_rule(board.licence)))


def say_queued(backend: Backend, submission_id: int) -> None:
    """Print a submission's place in the queue, and the command that follows it."""
    from kernelcup.reporting.words import place_text

    for job in backend.submission(submission_id).jobs:
        if job.waiting is not None:
            typer.echo(plain(f"{job.device}: {place_text(job.waiting)}"))
    who = "" if backend.server is not None else "   (it needs a running `kernelcup serve`)"
    typer.echo(f"Next: kernelcup watch {submission_id}{backend.option}{who}")


@with_backend
def watch(
    backend: Backend,
    submission_id: SubmissionId,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0.001,
            max=1e6,
            metavar="SECONDS",
            help="Give up waiting after this time, with exit code 9.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Wait for a submission's report.

    A server or another process, such as `kernelcup serve`, judges it. Exit codes as for
    `kernelcup run`.
    """
    with wiring.pointing_to(listing(backend), NotFound):
        with no_longer_than(
            timeout_s, f"submission {submission_id}", f"kernelcup watch {submission_id}{backend.option}"
        ):
            backend.watch(submission_id, quiet=as_json)
        finish(backend, submission_id, as_json=as_json)


@contextmanager
def no_longer_than(timeout_s: float | None, what: str, back: str) -> Iterator[None]:
    """Raise ``WaitOver`` during a wait that takes longer; ``back`` is the command that resumes it.

    Uses a timer of the process: a silent stream of a server would never give way to a look at
    the clock. The timer fires again each second: a library's cleanup may swallow the exception.
    """
    if timeout_s is None:
        yield
        return

    def give_up(_number: int, _frame: object) -> None:
        error = WaitOver(f"{what} has not ended within {timeout_s:g} s; it continues")
        error.add_note(back)
        raise error

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, timeout_s, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@with_backend
def cancel(
    backend: Backend,
    submission_id: SubmissionId,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel the unfinished jobs of a submission.

    Queued jobs are withdrawn; running jobs are stopped within seconds.
    """
    from kernelcup.app.submissions import withdrawal

    with wiring.pointing_to(listing(backend), NotFound):
        done = backend.call(withdrawal.cancel_submission, as_user=user, submission_id=submission_id)
    count = done.cancelled_jobs
    if as_json:
        typer.echo(json.dumps(fields(done)))
    else:
        typer.echo(f"{plural(count, 'job')} of submission {submission_id} cancelled")


@with_backend
def standings(
    backend: Backend,
    board: Annotated[
        str | None, typer.Argument(metavar="BOARD", help="Leaderboard; default: the only one.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Only this device; default: all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Number of places of a table at most.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Show a leaderboard's standings, one table for each device.

    Classes of machines that do not agree have a table each.
    """
    from kernelcup.cli.show import ranking, terminal
    from kernelcup.reporting.phrases import frozen_text, rejudge_command, waiting_text

    found = backend.board(only_board(backend) if board is None else board)
    devices = [board_device(found, device)] if device is not None else list(found.devices)
    tables = {name: whole_table(backend, found.name, name, limit=limit) for name in devices}
    since = tables[devices[0]].frozen_since
    if as_json:
        rows = ranking.place_object
        told = {
            "leaderboard": found.name,
            "waiting": {name: table.waiting for name, table in tables.items()},
            "frozen_since": None if since is None else since.isoformat(),
            "standings": {name: [*map(rows, table.items)] for name, table in tables.items()},
            "unranked": {name: [*map(rows, table.unranked)] for name, table in tables.items()},
            "practice": {name: [*map(rows, table.practice)] for name, table in tables.items()},
        }
        typer.echo(json.dumps(told))
        return
    out = terminal.console()
    for name, table in tables.items():
        ranking.standings(out, found, name, table.items)
        if table.waiting:
            command = "" if backend.server else rejudge_command(found.name)
            typer.echo(waiting_text(table.waiting, command))
        ranking.print_apart(out, found, name, table, limit)
    if since is not None:
        typer.echo(frozen_text(since))
    elif found.freeze_at is not None and found.freeze_at <= datetime.now(UTC):
        typer.echo(f"Frozen for others since {moment(found.freeze_at)}; you see the current standings.")


def whole_table(backend: Backend, board: str, device: str, *, limit: int) -> Table:
    """Return a ranking page by page, or one for each class of machines, up to the limit each."""
    from kernelcup.app.results import table

    def page(host_class: str | None, after: int | None, left: int) -> Table:
        return backend.call(
            table.show,
            board=board,
            device=device,
            host_class=host_class,
            after=after,
            limit=min(left, PAGE),
        )

    first = page(None, None, limit)
    places: list[Standing] = []
    classes: list[str | None] = [*first.classes] or [None]
    for host_class in classes:
        part = page(host_class, None, limit) if host_class else first
        mine = list(part.items)
        while part.next is not None and len(mine) < limit:
            part = page(host_class, part.next, limit - len(mine))
            mine += part.items
        places += mine
    return dataclasses.replace(first, items=places)


def board_device(board: BoardInfo, device: str) -> str:
    """Return a leaderboard's device in its own spelling. Raise ``UnknownDevice``."""
    for name in board.devices:
        if name.lower() == device.lower():
            return name
    raise UnknownDevice(f"{board.name} has no device {device!r}; it has {', '.join(board.devices)}.")


def only_board(backend: Backend) -> str:
    """Return the name of the only leaderboard. Raise ``InvalidValue`` if there is not just one."""
    names = [board.name for board in backend.boards()]
    if not names:
        raise NotFound(no_board(backend))
    if len(names) > 1:
        raise InvalidValue(f"which leaderboard? There are {', '.join(names)}")
    return names[0]
