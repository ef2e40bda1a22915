"""``kernelcup board update``: for managers of a leaderboard."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.app.boards.settings import BoardChanges
from kernelcup.cli import options
from kernelcup.cli.author import board_settings as settings_of
from kernelcup.cli.author.board import task_at, trial_of
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import BoardArgument, HarnessOption, JsonOption
from kernelcup.cli.show.boards import moment
from kernelcup.cli.show.output import plain, shortened
from kernelcup.domain import MOMENTS
from kernelcup.errors import InvalidValue
from kernelcup.reporting.phrases import plural

if TYPE_CHECKING:
    from kernelcup.app.boards.changes import Affected, UpdatePreview

PreviewOption = Annotated[bool, typer.Option("--preview", help="Only show what would change.")]
RejudgeOption = Annotated[
    bool, typer.Option("--rejudge", help="Judge again all results that are no longer comparable.")
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Allow removing devices that have submissions, revealing names or code, and a checker that accepts "
        "wrong answers.",
    ),
]


@with_backend
@settings_of.with_settings
def update(
    backend: Backend,
    name: BoardArgument,
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="New version: folder, zip, .py file, or a name.")
    ] = None,
    device: settings_of.DeviceOption = None,
    *,
    given: BoardChanges,
    harness: HarnessOption = None,
    preview: PreviewOption = False,
    rejudge: RejudgeOption = False,
    force: ForceOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Change a leaderboard's settings or task, after a preview of the consequences.

    The word none removes a deadline, an opening, a freeze, a size limit, an event or the review tags.
    """
    if device:
        given["devices"] = device
    kind = options.read_harness(harness)
    if kind is not None:
        given["harness"] = kind
    change(
        backend, name, task, given, preview=preview, rejudge=rejudge, force=force, yes=yes, as_json=as_json
    )


def change(
    backend: Backend,
    name: str,
    task: str | None,
    settings: BoardChanges,
    *,
    preview: bool,
    rejudge: bool,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what changes, ask, and do it."""
    from kernelcup.app.boards import managing
    from kernelcup.app.results.rejudge import rejudge_board

    board = backend.board(name).name
    new = None if task is None else task_at(task)
    seen = with_moments(backend.call(managing.preview, board=board, task=new, changes=settings))
    if not as_json:
        show_preview(seen)
    if preview or not seen.changes_anything:
        if as_json:
            typer.echo(json.dumps({**preview_object(seen), "updated": False}))
        return
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise InvalidValue("not a terminal: inspect with --preview, confirm with --yes")
        typer.confirm(f"Change {seen.board}?", abort=True)
    call = functools.partial(
        backend.call, board=board, changes=settings, expected=seen.fingerprint, force=force
    )
    carry_out(backend, board, task, call, quiet=as_json)
    jobs = None
    if rejudge and seen.needs_rejudge:
        jobs = backend.call(rejudge_board, board=board, device=None, only_best=False, dry_run=False).jobs
    if as_json:
        typer.echo(json.dumps({**preview_object(seen), "updated": True, "rejudged_jobs": jobs or 0}))
        return
    typer.echo(f"leaderboard {board} is changed")
    if jobs is not None:
        typer.echo(f"{jobs} ranked results are judged again")
    elif seen.needs_rejudge:
        typer.echo(left_standings([board], backend.option))


def carry_out(
    backend: Backend, board: str, task: str | None, call: Callable[..., object], *, quiet: bool
) -> None:
    """Change the settings, with a new task after its trial."""
    from kernelcup.app.boards import managing
    from kernelcup.cli.show.working import working

    if task is None:
        call(managing.change)
        return
    with working(f"trying {task} before {board} is changed", quiet=quiet, has_steps=True) as say:
        trial = trial_of(backend, task, say)
        call(managing.replace_task, task=task_at(task), trial=trial, rejudge=False)


def with_moments(seen: UpdatePreview) -> UpdatePreview:
    """Return a preview with the moments that a server sends as texts."""
    settings = {
        name: (_moment(old), _moment(new)) if name in MOMENTS else (old, new)
        for name, (old, new) in seen.settings.items()
    }
    return dataclasses.replace(seen, settings=settings)


def _moment(value: object) -> object:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def left_standings(names: Sequence[str], option: str) -> str:
    """Warn that results left the standings, and show how to bring them back."""
    from kernelcup.reporting.phrases import rejudge_command

    lines = "\n".join(f"  {rejudge_command(name, option)}" for name in names)
    return (
        "Earlier results are not comparable with new ones. They are out of the standings until judged again:\n"
        + lines
    )


def show_preview(seen: UpdatePreview) -> None:
    """Print what changes, for people."""
    if not seen.changes_anything:
        typer.echo(f"nothing changes in {seen.board}")
        return
    for name, (old, new) in seen.settings.items():
        typer.echo(plain(f"{name}: {setting(old)} -> {setting(new)}"))
    for file in seen.files:
        typer.echo(plain(f"{file.name} {file.kind}: +{file.added} -{file.removed} lines"))
        if file.kind == "changed" and file.diff:
            typer.echo(shortened(file.diff, first=40, last=10))
    for case in seen.cases:
        parts = [json.dumps(each) for each in (case.old, case.new) if each is not None]
        typer.echo(plain(f"{case.group} {case.kind}: {' -> '.join(parts)}"))
    for group, (before, after) in seen.hidden.items():
        typer.echo(f"{group.replace('_', ' ')} changed: {before} -> {plural(after, 'case')}")
    show_consequences(seen)


def show_consequences(seen: UpdatePreview) -> None:
    """Print what a change means for the ranking."""
    if seen.reasons:
        typer.echo(plain(f"results from before and after are not comparable: {'; '.join(seen.reasons)}"))
    if seen.needs_rejudge:
        typer.echo(
            "earlier results leave the standings until they are judged again (--rejudge does so at once)"
        )
    if seen.needs_rejudge:
        for each in seen.affected:
            typer.echo(f"  {each.device}: {each.entries} standings, {each.jobs} ranked results{taking(each)}")
    for what in seen.reveals:
        typer.echo(
            f"contrary to what was promised when people submitted, {what}; this needs --force, and they are notified"
        )
    for device in seen.removed_in_use:
        typer.echo(plain(f"{device} has submissions; removing it needs --force"))


def taking(each: Affected) -> str:
    """Describe how long it takes to judge a device's results again."""
    return "" if each.gpu_s is None else f", about {each.gpu_s / 60:.0f} min to judge again"


def setting(value: object) -> str:
    """Return a setting as people read it."""
    from kernelcup.app.boards.changes import as_json

    if value is None:
        return "none"
    if isinstance(value, datetime):
        return moment(value)
    plain_value = as_json(value)
    if isinstance(plain_value, list):
        return ", ".join(map(str, plain_value)) or "none"
    return str(plain_value)


def preview_object(seen: UpdatePreview) -> dict[str, Any]:
    """Return a preview as ``--json`` prints it."""
    from kernelcup.app.boards.changes import as_json

    settings = {
        name: {"old": as_json(old), "new": as_json(new)} for name, (old, new) in seen.settings.items()
    }
    return {
        "leaderboard": seen.board,
        "fingerprint": seen.fingerprint,
        "settings": settings,
        "files": [dataclasses.asdict(file) for file in seen.files],
        "cases": [dataclasses.asdict(case) for case in seen.cases],
        "hidden": {name: {"old": old, "new": new} for name, (old, new) in seen.hidden.items()},
        "needs_rejudge": seen.needs_rejudge,
        "reasons": list(seen.reasons),
        "affected": [dataclasses.asdict(each) for each in seen.affected],
        "estimated_gpu_s": seen.estimated_gpu_s,
        "removed_in_use": list(seen.removed_in_use),
        "reveals": list(seen.reveals),
    }
