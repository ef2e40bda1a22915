"""``kernelcup submissions``, and how a submission is shown."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli.options import ConfigOption, JsonOption, SubmissionId, UserOption
from kernelcup.cli.texts import plain

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.domain import Run, Task
    from kernelcup.services.submissions import JobView, SubmissionView
    from kernelcup.storage.database import Database

app = typer.Typer(help="List, show and delete submissions.", no_args_is_help=True)


@app.command("list")
def list_all(
    board: Annotated[str | None, typer.Option("--board", "-b", help="Only of this leaderboard.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only of this user.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag of the static screen.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 20,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List submissions, the newest first."""
    from kernelcup.cli import platform
    from kernelcup.errors import NotFound
    from kernelcup.services import submissions as service

    with (
        platform.open_database(platform.load_config(config)) as db,
        platform.pointing_to("kernelcup board list", NotFound),
    ):
        found = service.list_submissions(db, user=user, board=board, tag=tag, limit=limit)
        views = [service.show_submission(db, each.id) for each in found]
    if as_json:
        typer.echo(json.dumps({"submissions": [as_object(view, with_report=False) for view in views]}))
    elif views:
        print_list(views)
    elif board is None and user is None and tag is None:
        typer.echo("There is no submission yet. Next: kernelcup submit FILE --board BOARD")
    else:
        typer.echo("No submission fits.")


def print_list(views: list[SubmissionView]) -> None:
    """Print a line for each submission."""
    from kernelcup.cli import render

    table = render.new_table(
        "id", "submitted (UTC)", "user", "leaderboard", "mode", "file", "verdicts", whole=("id", "verdicts")
    )
    for view in views:
        each = view.submission
        states = "\n".join(f"{job.job.device}: {outcome(job)}" for job in view.jobs)
        mode = "ranked" if each.mode.value == "leaderboard" else each.mode.value
        when = f"{each.created_at:%Y-%m-%d %H:%M}"
        row = (f"#{each.id}", when, each.user, each.leaderboard, mode, each.file_name, states)
        table.add_row(*(render.cell(value) for value in row))
    render.console().print(table, soft_wrap=False)


@app.command()
def show(
    submission_id: SubmissionId,
    code: Annotated[bool, typer.Option("--code", help="Print the submitted file instead.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show a submission with its reports and what the static screen found.

    Exit codes as for `kernelcup run`.
    """
    from kernelcup.cli import platform
    from kernelcup.errors import NotFound
    from kernelcup.services.submissions import get_code

    with (
        platform.open_database(platform.load_config(config)) as db,
        platform.pointing_to("kernelcup submissions list", NotFound),
    ):
        if code:
            text = get_code(db, submission_id)
            typer.echo(
                json.dumps({"submission": submission_id, "code": text}) if as_json else text, nl=as_json
            )
            return
        finish(db, submission_id, as_json=as_json, for_reviewers=True)


@app.command()
def delete(
    submission_id: SubmissionId,
    user: UserOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Delete one of your submissions with its runs."""
    from kernelcup.cli import platform
    from kernelcup.errors import Forbidden, InvalidValue, NotFound
    from kernelcup.services.submissions import delete_submission, show_submission
    from kernelcup.services.users import actor_of

    with (
        platform.open_database(platform.load_config(config)) as db,
        platform.pointing_to("kernelcup submissions list", NotFound),
        platform.pointing_to("say who you are with --user", Forbidden),
    ):
        show_submission(db, submission_id)
        if not yes and (as_json or not sys.stdin.isatty()):
            raise InvalidValue("nobody can be asked here; give --yes")
        if not yes:
            typer.confirm(f"Delete submission {submission_id} and its runs for good?", abort=True)
        delete_submission(db, submission_id, by=actor_of(db, platform.user_name(user)), now=datetime.now(UTC))
    if as_json:
        typer.echo(json.dumps({"deleted": submission_id}))
    else:
        typer.echo(f"submission {submission_id} is deleted")


def finish(
    db: Database,
    submission_id: int,
    *,
    as_json: bool,
    silent: bool = False,
    for_reviewers: bool = False,
) -> None:
    """Print a submission as it stands now, and end with the exit code of its verdicts.

    Reviewers are shown the static screen as well.
    """
    from kernelcup.cli import exits, render, screening
    from kernelcup.services.boards import get_task
    from kernelcup.services.submissions import screening_of, show_submission

    view = show_submission(db, submission_id)
    found = screening_of(db, submission_id)
    if as_json:
        typer.echo(json.dumps(as_object(view) | {"screening": screening.as_object(found)}))
    elif not silent:
        out = render.console()
        print_view(out, view, get_task(db, view.submission.leaderboard))
        print_places(out, db, view)
        if for_reviewers:
            screening.print_screening(out, found)
    raise typer.Exit(
        exits.of_jobs([(each.job.state, each.run.verdict if each.run else None) for each in view.jobs])
    )


def print_view(out: Console, view: SubmissionView, task: Task) -> None:
    """Print every job of a submission."""
    from rich.text import Text

    from kernelcup.cli import render

    each = view.submission
    for job in view.jobs:
        out.print(
            Text(
                f"#{each.id} {each.leaderboard} on {job.job.device}: {plain(each.file_name)} "
                f"by {plain(each.user)}",
                style="bold",
            )
        )
        if job.run is not None:
            about = f"kernelcup board show {each.leaderboard}"
            render.report(out, job.run.report, task.ranking_by, about=about)
            print_replay(out, job.run)
        else:
            out.print(Text(plain(state_text(job))))


def print_replay(out: Console, run: Run) -> None:
    """Say how the sample on which a run failed is repeated."""
    from rich.text import Text

    failed = [
        (stage.name.value, case.index)
        for stage in run.report.stages
        for case in stage.cases
        if case.failed_on is not None
    ]
    if failed:
        stage, case = failed[0]
        out.print(Text(f"Repeat that sample: kernelcup replay {run.id} --stage {stage} --case {case}"))


def state_text(view: JobView) -> str:
    """Say where a job without a run is."""
    from kernelcup.domain import JobState

    if view.job.state is JobState.CANCELLED and view.job.reason:
        return view.job.reason
    place = f", number {view.position} in its queue" if view.position is not None else ""
    reason = f" ({view.job.reason})" if view.job.reason else ""
    return f"{view.job.state.value}{place}{reason}"


def print_places(out: Console, db: Database, view: SubmissionView) -> None:
    """After a scored run, print the place of its author."""
    from rich.text import Text

    from kernelcup.cli import render
    from kernelcup.services.rank import personal_best

    each = view.submission
    for job in view.jobs:
        if job.run is None or job.run.score_s is None:
            continue
        best = personal_best(db, each.leaderboard, job.job.device, each.user)
        if best is not None:
            what = f"rank {best.rank} with {render.duration(best.score_s * 1e9)} (#{best.submission_id})"
            out.print(Text(plain(f"{each.user} on {job.job.device}: {what}")))


def outcome(view: JobView) -> str:
    """Return a job's verdict, or its state while it has none."""
    return view.run.verdict.value if view.run is not None else view.job.state.value


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


def job_object(view: JobView, *, with_report: bool) -> dict[str, object]:
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
        "run": run.id if run is not None else None,
        "verdict": run.verdict.value if run is not None else None,
        "score_s": run.score_s if run is not None else None,
    }
    if with_report:
        body["report"] = to_json(run.report) if run is not None else None
    return body
