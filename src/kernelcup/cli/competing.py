"""``kernelcup submit``, ``watch``, ``cancel``, ``submissions`` and ``standings``."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.options import ConfigOption, JsonOption, ModeOption, UserOption

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.config import Config
    from kernelcup.services.progress import Progress
    from kernelcup.services.submissions import SubmissionView
    from kernelcup.storage.database import Database

submissions = typer.Typer(help="List, show and delete submissions.", no_args_is_help=True)
POLL_INTERVAL_S = 0.5

Identifier = Annotated[int, typer.Argument(metavar="ID", help="Number of the submission.")]


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The submission.")],
    board: Annotated[
        str | None,
        typer.Option("--board", "-b", help="Leaderboard; else `#!POPCORN leaderboard NAME` in the file."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device", "--gpu", "-d", help="May be given several times; else `#!POPCORN gpus A B`."
        ),
    ] = None,
    mode: ModeOption = "leaderboard",
    user: UserOption = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Judge now and show the report.")] = True,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Submit FILE to a leaderboard, by default ranked.

    With --no-wait it is queued for `kernelcup serve`. Exit codes as for `kernelcup run`.
    """
    from kernelcup.cli import options, platform
    from kernelcup.errors import NotFound
    from kernelcup.services.submit import submit as accept

    settings = platform.load_config(config)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from error
    with platform.open_database(settings) as db:
        submission = accept(
            db,
            user=platform.user_name(user),
            file_name=file.name,
            content=content,
            mode=options.read_mode(mode),
            now=datetime.now(UTC),
            board=board,
            devices=device or (),
        )
        if not as_json:
            typer.echo(
                f"submission {submission.id} to {submission.leaderboard} ({', '.join(submission.devices)})"
            )
        if wait:
            follow(settings, db, submission.id, quiet=as_json)
        finish(db, submission.id, as_json=as_json, waited=wait)


def follow(settings: Config, db: Database, submission_id: int, *, quiet: bool) -> None:
    """Work off the queue until a submission has ended, with a live line for its stages."""
    from kernelcup.cli import platform, render
    from kernelcup.services.progress import JobProgress

    with render.StageLines(quiet=quiet) as lines:

        def take(progress: Progress) -> None:
            if isinstance(progress, JobProgress) and progress.job.submission_id == submission_id:
                lines.take(progress.event)

        platform.make_dispatcher(settings, db, take).run_until(submission_id)


def finish(db: Database, submission_id: int, *, as_json: bool, waited: bool = True) -> None:
    """Print a submission as it stands now, and end with the exit code of its verdicts."""
    from kernelcup.cli import exits, render
    from kernelcup.services.boards import get_task
    from kernelcup.services.submissions import show_submission

    view = show_submission(db, submission_id)
    if as_json:
        typer.echo(json.dumps(as_object(view)))
    elif waited:
        show_view(render.console(), view, get_task(db, view.submission.leaderboard).ranking_by)
    else:
        typer.echo(f"Next: kernelcup watch {submission_id}   (a `kernelcup serve` must be running)")
    verdicts = [job.run.verdict for job in view.jobs if job.run is not None]
    if any(job.job.state.value == "cancelled" for job in view.jobs) and not verdicts:
        raise typer.Exit(exits.CANCELLED)
    raise typer.Exit(exits.of_verdicts(verdicts))


def show_view(out: Console, view: SubmissionView, ranking_by: Any) -> None:
    """Print every job of a submission."""
    from kernelcup.cli import render

    for job in view.jobs:
        out.print(f"[bold]#{view.submission.id} {view.submission.leaderboard} on {job.job.device}[/]")
        if job.run is not None:
            render.report(out, job.run.report, ranking_by)
        else:
            place = f", number {job.position} in its queue" if job.position is not None else ""
            reason = f": {job.job.reason}" if job.job.reason else ""
            out.print(f"{job.job.state.value}{place}{reason}", markup=False)


def watch(submission_id: Identifier, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Wait for a submission that another process judges, then show its report."""
    from kernelcup.cli import platform
    from kernelcup.services.submissions import show_submission

    with platform.open_database(platform.load_config(config)) as db:
        last = ""
        while not (view := show_submission(db, submission_id)).ended:
            now = "; ".join(
                f"{job.job.device}: {job.job.state.value}, place {job.position}" for job in view.jobs
            )
            now = now.replace(", place None", "")
            if now != last and not as_json:
                typer.echo(now)
            last = now
            time.sleep(POLL_INTERVAL_S)
        finish(db, submission_id, as_json=as_json)


def cancel(submission_id: Identifier, user: UserOption = None, config: ConfigOption = None) -> None:
    """Cancel what is left of a submission; a run that has begun is ended."""
    from kernelcup.cli import platform
    from kernelcup.services.submissions import cancel_submission

    with platform.open_database(platform.load_config(config)) as db:
        count = cancel_submission(db, submission_id, by=platform.user_name(user), now=datetime.now(UTC))
    typer.echo(f"{count} job{'' if count == 1 else 's'} of submission {submission_id} cancelled")


@submissions.command("list")
def list_submissions(
    board: Annotated[str | None, typer.Option("--board", "-b", help="Only of this leaderboard.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only of this user.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 20,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List submissions, the newest first."""
    from kernelcup.cli import platform
    from kernelcup.services import submissions as service

    with platform.open_database(platform.load_config(config)) as db:
        found = service.list_submissions(db, user=user, board=board, limit=limit)
        views = [service.show_submission(db, each.id) for each in found]
    if as_json:
        typer.echo(json.dumps({"submissions": [as_object(view, with_report=False) for view in views]}))
        return
    for view in views:
        each = view.submission
        states = ", ".join(f"{job.job.device} {outcome(job)}" for job in view.jobs)
        typer.echo(
            f"#{each.id}  {each.created_at:%Y-%m-%d %H:%M}  {each.user}  {each.leaderboard}  {each.mode}  {states}"
        )
    if not views:
        typer.echo("There is no submission yet. Next: kernelcup submit FILE --board BOARD")


@submissions.command("show")
def show(
    submission_id: Identifier,
    code: Annotated[bool, typer.Option("--code", help="Print the submitted file instead.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show a submission with the report of each of its runs."""
    from kernelcup.cli import platform
    from kernelcup.services.submissions import get_code

    with platform.open_database(platform.load_config(config)) as db:
        if code:
            typer.echo(get_code(db, submission_id), nl=False)
            return
        finish(db, submission_id, as_json=as_json)


@submissions.command("delete")
def delete(
    submission_id: Identifier,
    user: UserOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
) -> None:
    """Delete one of your submissions with its runs."""
    from kernelcup.cli import platform
    from kernelcup.services.submissions import delete_submission

    if not yes:
        typer.confirm(f"Delete submission {submission_id} and its runs for good?", abort=True)
    with platform.open_database(platform.load_config(config)) as db:
        delete_submission(db, submission_id, by=platform.user_name(user))
    typer.echo(f"submission {submission_id} is deleted")


def standings(
    board: Annotated[str | None, typer.Argument(help="Leaderboard; default: the only one.")] = None,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Default: all of them.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many places at most.")] = 50,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show the ranking of a leaderboard, one for each device."""
    from kernelcup.cli import platform, render
    from kernelcup.services import rank
    from kernelcup.services.boards import get_board

    with platform.open_database(platform.load_config(config)) as db:
        found = get_board(db, board or only_board(db))
        devices = [rank.board_device(found, device)] if device is not None else list(found.devices)
        tables = {name: rank.standings(db, found.name, name, limit=limit) for name in devices}
    if as_json:
        body = {name: [place_object(place) for place in places] for name, places in tables.items()}
        typer.echo(json.dumps({"leaderboard": found.name, "standings": body}))
        return
    out = render.console()
    for name, places in tables.items():
        out.print(render.standings(found, name, places))


def only_board(db: Database) -> str:
    """Return the name of the only leaderboard. Raise ``InvalidValue`` if there is not just one."""
    from kernelcup.errors import InvalidValue
    from kernelcup.services.boards import list_boards

    names = [board.name for board in list_boards(db)]
    if len(names) != 1:
        raise InvalidValue(f"which leaderboard? There are {', '.join(names) or 'none yet'}")
    return names[0]


def outcome(job: Any) -> str:
    """Return a job's verdict, or its state while it has none."""
    return str(job.run.verdict.value if job.run is not None else job.job.state.value)


def place_object(place: Any) -> dict[str, object]:
    """Return a standing as ``--json`` prints it."""
    return {
        "rank": place.rank,
        "user": place.user,
        "score_s": place.score_s,
        "submission": place.submission_id,
        "submitted_at": place.submitted_at.isoformat(),
        "file_name": place.file_name,
        "trust": place.trust,
        "comparable": place.comparable,
    }


def as_object(view: SubmissionView, *, with_report: bool = True) -> dict[str, object]:
    """Return a submission as ``--json`` prints it."""
    each = view.submission
    return {
        "id": each.id,
        "leaderboard": each.leaderboard,
        "user": each.user,
        "mode": each.mode.value,
        "file_name": each.file_name,
        "created_at": each.created_at.isoformat(),
        "jobs": [job_object(job, with_report=with_report) for job in view.jobs],
    }


def job_object(view: Any, *, with_report: bool) -> dict[str, object]:
    """Return a job with its run as ``--json`` prints it."""
    from kernelcup_harness.protocol import to_json

    job, run = view.job, view.run
    body: dict[str, object] = {
        "id": job.id,
        "device": job.device,
        "state": job.state.value,
        "attempt": job.attempt,
        "position": view.position,
        "reason": job.reason,
        "verdict": run.verdict.value if run is not None else None,
        "score_s": run.score_s if run is not None else None,
    }
    if with_report:
        body["report"] = to_json(run.report) if run is not None else None
    return body
