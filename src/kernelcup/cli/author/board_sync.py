"""``kernelcup board sync``: leaderboards from a git repository."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import exit_codes, options, wiring
from kernelcup.cli.author import board_settings as settings_of
from kernelcup.cli.author.board_update import PreviewOption, RejudgeOption, left_standings
from kernelcup.cli.backend.base import Backend, refuse_user
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import BoardHarnessOption, JsonOption, UserOption
from kernelcup.cli.show.output import plain
from kernelcup.domain import Visibility
from kernelcup.errors import InvalidValue

if TYPE_CHECKING:
    from kernelcup.app.boards.problem_sync import SyncResult


@with_backend
def sync(
    backend: Backend,
    repository: Annotated[
        str, typer.Argument(metavar="REPOSITORY", help="An https URL, or a path on this machine.")
    ],
    branch: Annotated[str, typer.Option("--branch", "-b", help="Its branch.")] = "main",
    problem_set: Annotated[
        str | None,
        typer.Option("--problem-set", help="Name of one problems/*.yaml file; default: all of them."),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix for the leaderboards' names.")] = "",
    device: Annotated[
        list[str] | None,
        typer.Option("--device", "-d", help="Replaces the devices that each problem names; may be repeated."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", help="Replaces each problem's own deadline; none removes it.")
    ] = None,
    members_only: Annotated[
        bool | None,
        typer.Option(
            "--members-only/--public", help="Whether only members and managers see the leaderboard."
        ),
    ] = None,
    harness: BoardHarnessOption = None,
    preview: PreviewOption = False,
    rejudge: RejudgeOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also apply changes that make earlier results incomparable, and "
            "take checkers that accept wrong answers.",
        ),
    ] = False,
    run: Annotated[
        bool,
        typer.Option(
            "--run/--no-run", help="Whether each task is tried first, a few seconds; not at a server."
        ),
    ] = True,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create and update the leaderboards of a git repository's problem sets.

    A device that is not configured here or cannot judge a problem is left out; the problem keeps the others.
    Exit code 0 if every problem has its leaderboard as the repository has it, or is over, 3 if one was left as it is.
    New leaderboards use the standard harness if the task's own solutions pass under it. If only the task's
    own harness can judge it, --harness own permits that. A server fetches from an https URL, and accepts only
    --branch, --problem-set, --device, --deadline, --harness, --preview and --force.
    """
    from kernelcup.app.boards import problem_sync
    from kernelcup.app.boards.deadlines import parse_deadline
    from kernelcup.app.boards.settings import KEEP, BoardChanges
    from kernelcup.cli.show.working import working

    kind = options.read_harness(harness)
    until = None if deadline in (None, settings_of.NONE) else parse_deadline(deadline, datetime.now(UTC))
    if backend.server is not None:
        refuse_local_options(prefix=prefix, members_only=members_only, rejudge=rejudge, user=user)
    with working(f"syncing {repository}", quiet=as_json) as say:
        result = backend.call(
            problem_sync.sync,
            as_user=user,
            repository=repository,
            branch=branch,
            problem_set=problem_set,
            force=force,
            preview=preview,
            devices=tuple(device or ()),
            changes=BoardChanges(deadline=KEEP if deadline is None else until),
            harness=kind,
            # A server takes none of these.
            prefix=prefix,
            visibility=None if members_only is None else list(Visibility)[members_only],
            rejudge=rejudge,
            trial=None if backend.server or not run else wiring.make_trial(backend.config, say),
            say=say,
        )
    is_here = backend.server is None and user is None and bool(result.created) and not result.preview
    local_owner = backend.board(result.created[0]).creator if is_here else ""
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(result)))
    else:
        show_sync(result, backend.option)
        if local_owner and result.created:
            typer.echo(f"Their owner is {local_owner}; choose another owner for new ones with --user NAME.")
    if not result.is_complete:
        raise typer.Exit(exit_codes.USER_ERROR)


def refuse_local_options(*, prefix: str, members_only: bool | None, rejudge: bool, user: str | None) -> None:
    """Raise ``InvalidValue`` for sync options that a server does not accept."""

    refuse_user(user)
    given = {
        "--prefix": bool(prefix),
        "--members-only/--public": members_only is not None,
        "--rejudge": rejudge,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidValue(
                f"{name}: a server does not accept this option; change the leaderboards with `kernelcup board update`, "
                "or sync on the machine of the database (--local)"
            )


def show_sync(result: SyncResult, option: str) -> None:
    """Print what a sync did, for people."""
    would = "would be " if result.preview else ""
    typer.echo(f"commit {result.commit}")
    for name in result.created:
        typer.echo(f"{name}: {would}created")
    for told in result.notes:
        typer.echo(plain(f"{told.name}: {told.note}"))
    for name in result.updated:
        typer.echo(f"{name}: {would}updated")
    for each in result.devices_left_out:
        typer.echo(plain(f"{each.name}: a device is left out. {each.reason}"))
    for each in result.skipped:
        typer.echo(plain(f"{each.name}: skipped, {each.reason}"))
    for problem in result.errors:
        typer.echo(plain(f"{problem.name}: error: {problem.error}"))
    if result.left_standings and not result.preview:
        typer.echo(left_standings(result.left_standings, option))
