"""``kernelcup submissions``, and how a submission is shown."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import exit_codes, wiring
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.options import JsonOption, SubmissionId, UserOption
from kernelcup.cli.show.output import fields, json_object, plain
from kernelcup.domain import JobState, RankingBy, Standing
from kernelcup.errors import InvalidValue, NotFound
from kernelcup_harness.protocol import SASS, RanKernel, RunReport, Verdict, to_json

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.reporting.results import JobInfo, SubmissionInfo

app = typer.Typer(help="List, show and delete submissions.", no_args_is_help=True)


@app.command("list")
@with_backend
def list_all(
    backend: Backend,
    board: Annotated[
        str | None, typer.Option("--board", "-b", help="Only submissions to this leaderboard.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only submissions by this user.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag of a second opinion.")] = None,
    verdict: Annotated[
        str | None, typer.Option("--verdict", help="Only with this verdict; for managers.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", "--gpu", "-d", help="Only on this device.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only those sent from this day or time on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only those sent until this day or time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of submissions at most.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List submissions, newest first."""
    from kernelcup.app.boards.deadlines import parse_end, parse_opening
    from kernelcup.app.queue import shown

    with wiring.pointing_to(f"kernelcup board list{backend.option}", NotFound):
        views = backend.call(
            shown.newest,
            user=user,
            board=board,
            tag=tag,
            verdict=None if verdict is None else read_verdict(verdict),
            device=device,
            since=None if since is None else parse_opening(since),
            until=None if until is None else parse_end(until),
            before_id=None,
            limit=limit,
        )
    if as_json:
        typer.echo(json.dumps({"submissions": [as_object(view, with_report=False) for view in views]}))
    elif views:
        print_list(views)
    elif {board, user, tag, verdict, device, since, until} == {None}:
        typer.echo("There is no submission yet. Next: kernelcup submit FILE --board BOARD")
    else:
        typer.echo("No submission matches.")


def read_verdict(text: str) -> Verdict:
    """Return a verdict by its name. Raise ``InvalidValue``."""
    try:
        return Verdict(text.lower().replace(" ", "_"))
    except ValueError:
        raise InvalidValue(f"Verdict {text!r}: expected one of {', '.join(Verdict)}.") from None


def print_list(views: list[SubmissionInfo]) -> None:
    """Print a line for each submission."""
    from kernelcup.cli.show import tables, terminal
    from kernelcup.reporting.words import outcome_text

    table = tables.new_table(
        "id", "submitted (UTC)", "user", "leaderboard", "mode", "file", "verdicts", whole=("id", "verdicts")
    )
    for each in views:
        states = "\n".join(f"{job.device}: {outcome_text(job.state, job.verdict)}" for job in each.jobs)
        mode = "ranked" if each.mode.value == "leaderboard" else each.mode.value
        when = f"{each.created_at:%Y-%m-%d %H:%M}"
        row = (f"#{each.id}", when, each.shown, each.leaderboard, mode, each.file_name, states)
        table.add_row(*(tables.cell(value) for value in row))
    tables.print_table(terminal.console(), "", table, drop=("file", "mode", "submitted (UTC)", "user"))


@app.command()
@with_backend
def show(
    backend: Backend,
    submission_id: SubmissionId,
    code: Annotated[bool, typer.Option("--code", help="Print the submitted files instead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a submission with its reports and a second opinion's findings.

    Exit codes as for `kernelcup run`.
    """
    from kernelcup.app.queue import shown

    with wiring.pointing_to(listing(backend), NotFound):
        if code:
            found = backend.call(shown.show_code, submission_id=submission_id)
            typer.echo(json.dumps(fields(found)) if as_json else found.tree.text, nl=as_json)
            return
        finish(backend, submission_id, as_json=as_json, for_reviewers=True)


@app.command()
@with_backend
def delete(
    backend: Backend,
    submission_id: SubmissionId,
    user: UserOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete one of your submissions with its runs."""
    from kernelcup.app.submissions import withdrawal

    with wiring.pointing_to(listing(backend), NotFound):
        backend.submission(submission_id)
        if not yes and (as_json or not sys.stdin.isatty()):
            raise InvalidValue("not a terminal: confirm with --yes")
        if not yes:
            typer.confirm(f"Delete submission {submission_id} and its runs permanently?", abort=True)
        done = backend.call(withdrawal.delete_submission, as_user=user, submission_id=submission_id)
    if as_json:
        typer.echo(json.dumps({"withdrawn" if done.withdrawn else "deleted": submission_id}))
    elif not done.withdrawn:
        typer.echo(f"submission {submission_id} is deleted")
    else:
        typer.echo(
            f"submission {submission_id} is withdrawn: the table is finished, so its place and time stay"
        )


def listing(backend: Backend) -> str:
    """Return the command that lists the submissions."""
    return f"kernelcup submissions list{backend.option}"


def finish(
    backend: Backend,
    submission_id: int,
    *,
    as_json: bool,
    silent: bool = False,
    for_reviewers: bool = False,
) -> None:
    """Print a submission's current state, and end with the exit code of its verdicts.

    With the local database, a second opinion's findings are shown too; a server does not reveal them.
    """
    from kernelcup.app.submissions import handout
    from kernelcup.cli.show import screening, terminal

    view = backend.submission(submission_id)
    is_local = backend.server is None
    if as_json:
        body = as_object(view) | {"places": places_object(backend, view)}
        if is_local:
            body["screening"] = screening.as_object(backend.screening(submission_id))
        typer.echo(json.dumps(body))
    elif not silent:
        out = terminal.console()
        task = backend.call(handout.show_task, name=view.leaderboard)
        print_view(out, view, task.ranking_by, about=board_command(backend, view))
        for job in view.jobs if is_local else ():
            print_replay(out, job)
        print_places(out, backend, view)
        if for_reviewers and is_local:
            screening.print_screening(out, backend.screening(submission_id))
    raise typer.Exit(exit_codes.of_jobs([(job.state, job.verdict) for job in view.jobs]))


def board_command(backend: Backend, view: SubmissionInfo) -> str:
    """Return the command that shows a submission's task."""
    return f"kernelcup board show {view.leaderboard}{backend.option}"


def print_view(out: Console, view: SubmissionInfo, ranking_by: RankingBy, *, about: str) -> None:
    """Print every job of a submission. ``about`` is the command that shows the task."""
    from rich.text import Text

    from kernelcup.cli.show import render
    from kernelcup.reporting import report

    for job in view.jobs:
        head = f"#{view.id} {view.leaderboard} on {job.device}: {view.file_name} by {view.shown}"
        out.print(Text(plain(head), style="bold"))
        if job.report is not None:
            rule = ranking_by if job.score is not None else None  # a comparison has no score
            waits = job.state is JobState.QUARANTINED
            held = report.WAITS if waits else report.LOOKED_AT
            known = report.blocks(
                job.report, score=job.score, ranking_by=rule, best=job.best, about=about, held=held
            )
            render.show(out, known)
            render.show_next(out, job.report)
        else:
            out.print(Text(plain(state_text(job))))
        if job.host_class:
            out.print(Text(plain(f"Judged on {job.host_class}"), style="dim"))
        if job.remark:
            out.print(Text(plain(job.remark), style="yellow"))


def print_replay(out: Console, job: JobInfo) -> None:
    """Print the command that repeats the sample on which a run failed."""
    from rich.text import Text

    failed = [
        (stage.name.value, case.index)
        for stage in (job.report.stages if job.report is not None else ())
        for case in stage.cases
        if case.failed_on is not None
    ]
    if failed:
        stage, case = failed[0]
        out.print(Text(f"Repeat that sample: kernelcup replay {job.run} --stage {stage} --case {case}"))


def state_text(job: JobInfo) -> str:
    """Describe the state of a job without a run."""
    from kernelcup.reporting.words import place_text

    if job.state is JobState.CANCELLED and job.reason:
        return job.reason
    if job.waiting is not None:
        return place_text(job.waiting)
    place = f", number {job.position} in its queue" if job.position is not None else ""
    reason = f" ({job.reason})" if job.reason else ""
    return f"{job.state.value}{place}{reason}"


def places(backend: Backend, view: SubmissionInfo) -> dict[str, Standing]:
    """Return the places of a submission's author by device, where it has a score."""
    scored = [job.device for job in view.jobs if job.score is not None]
    found = {device: place(backend, view.leaderboard, device, view.user) for device in scored}
    return {device: place for device, place in found.items() if place is not None}


def place(backend: Backend, board: str, device: str, user: str) -> Standing | None:
    """Return a user's place; a server tells its own only to each user."""
    from kernelcup.app.results import table

    found = backend.call(table.show_mine, board=board, device=device, user=user)
    return found if found is not None and found.user == user else None


def places_object(backend: Backend, view: SubmissionInfo) -> dict[str, object]:
    """Return the author's places as ``--json`` prints them."""
    from kernelcup.cli.show.ranking import place_object

    return {device: place_object(place) for device, place in places(backend, view).items()}


def print_places(out: Console, backend: Backend, view: SubmissionInfo) -> None:
    """After a scored run, print its author's place."""
    from rich.text import Text

    from kernelcup.reporting import phrases
    from kernelcup.reporting.report import score_text

    for device, best in places(backend, view).items():
        time = f", {phrases.CORRECT}" if best.time_s is None else f" with {score_text(best.score)}"
        place = phrases.rank_text(best.rank, tied=best.tied)
        what = f"rank {place}{time} (#{best.submission_id})"
        what += f" among results of {best.host_class}" if best.host_class else ""
        out.print(Text(plain(f"{view.shown} on {device}: {what}")))


def as_object(view: SubmissionInfo, *, with_report: bool = True) -> dict[str, object]:
    """Return a submission as ``--json`` prints it."""
    jobs = [job_object(job, with_report=with_report) for job in view.jobs]
    facts = json_object(view, "id", "leaderboard", "user", "shown_name", "mode", "file_name", "created_at")
    return facts | {"jobs": jobs}


def job_object(job: JobInfo, *, with_report: bool) -> dict[str, object]:
    """Return a job with its run as ``--json`` prints it."""
    from kernelcup import scoring
    from kernelcup.reporting.insights import as_objects

    names = ("id", "device", "state", "attempt", "position", "reason", "run", "verdict")
    more = ("trust", "host_class", "duel", "remark")
    body = json_object(job, *names, *more, **scoring.as_object(job.score))
    if job.waiting is not None:
        body |= {"starts_in_s": job.waiting.starts_in_s, "reason": job.waiting.reason}
    if with_report:
        body["report"] = to_json(job.report)
        body["best"] = to_json(job.best)
        body["lessons"] = as_objects(job.report, job.best) if job.report is not None else []
    return body


@app.command()
@with_backend
def sass(
    backend: Backend,
    submission: SubmissionId,
    device: Annotated[str | None, typer.Option("--gpu", "-g", help="Of the run on this device.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the machine code of a ranked submission's own kernels, and what each kernel takes.

    It is what was timed. For PTX, and before anything is sent: kernelcup run FILE --show ptx,sass,resources
    """
    print_listing(backend, submission, device, as_json=as_json)


def print_listing(backend: Backend, number: int, device: str | None, *, as_json: bool) -> None:
    """Print the kernels of a submission's run and their machine code. Raise ``NotFound`` without any."""
    job, report = listed_job(backend, number, device)
    text = content(backend, job, SASS).decode("utf-8", "replace")
    if as_json:
        ran = [to_json(each) for each in report.ran]
        typer.echo(json.dumps({"id": number, "device": job.device, "ran": ran, "sass": text}))
        return
    typer.echo(plain("\n".join([*(f"// {resources(each)}" for each in report.ran), text])))


def listed_job(backend: Backend, number: int, device: str | None) -> tuple[JobInfo, RunReport]:
    """Return a submission's job whose run has a listing, and its report. Raise ``NotFound`` without any."""
    for job in backend.submission(number).jobs:
        report = job.report if device is None or job.device.lower() == device.lower() else None
        if report is not None and any(each.name == SASS for each in report.files):
            return job, report
    raise NotFound(
        f"Submission {number} has no listing that you may see: accepted ranked runs have one whose calls "
        "were replayed on a GPU."
    )


def content(backend: Backend, job: JobInfo, name: str) -> bytes:
    """Return a file of a run."""
    from kernelcup.app.results import profile_files

    report, run = job.report, job.run
    assert report is not None
    assert run is not None
    return backend.ask(
        lambda db: profile_files.content(db, report, name), lambda api: api.artifact(run, name)
    )


def resources(ran: RanKernel) -> str:
    """Return what a kernel takes, in a line."""
    share = "" if ran.share is None else f", {ran.share:.0%} of the time"
    grid, block = ("x".join(map(str, each)) for each in (ran.grid, ran.block))
    return (
        f"{ran.name}: {ran.registers} registers, {ran.shared_bytes} bytes shared, {ran.local_bytes} bytes local, "
        f"grid {grid}, block {block}{share}"
    )
