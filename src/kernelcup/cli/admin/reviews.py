"""``kernelcup admin rejudge``, ``reviews`` and ``quarantine``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.app.results import rejudge as service
from kernelcup.app.results import reviews
from kernelcup.app.results.rejudge import RejudgePlan
from kernelcup.cli import wiring
from kernelcup.cli.admin.pause import check_reason
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.operations import Answer, listed, say
from kernelcup.cli.options import JsonOption, SubmissionId
from kernelcup.cli.show.output import fields, json_object, plain
from kernelcup.domain.answers import Review
from kernelcup.errors import InvalidValue, KernelCupError, NotFound, UnknownDevice
from kernelcup.reporting.columns import evidence_lines
from kernelcup.reporting.phrases import duration, plural, same_code_text

if TYPE_CHECKING:
    from kernelcup.reporting.results import JobInfo, SubmissionInfo


@with_backend
def rejudge(
    backend: Backend,
    board: Annotated[
        str | None,
        typer.Argument(metavar="[BOARD]", help="Leaderboard whose ranked results are judged again."),
    ] = None,
    submission: Annotated[
        int | None,
        typer.Option(
            "--submission", min=1, max=2**63 - 1, help="Only this submission, in any mode, instead of BOARD."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option("--device", "-d", help="Only on this device.")] = None,
    only_best: Annotated[
        bool,
        typer.Option(
            "--only-best",
            help="Only entries of the standings, or entries from before the task or the clock changed.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan without carrying it out.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge results again, after showing the plan.

    Old results count until the new ones are ready. Results of an earlier task version are already out of the
    standings.
    """
    if (board is None) == (submission is None):
        raise InvalidValue("expected either a leaderboard or --submission ID")
    if submission is not None and (device is not None or only_best):
        raise InvalidValue("--device and --only-best are for leaderboards; a submission is judged as a whole")
    named = None if board is None else backend.board(board).name

    def work(dry: bool) -> RejudgePlan:
        if submission is not None:
            with wiring.pointing_to(f"kernelcup submissions list{backend.option}", NotFound):
                return backend.call(service.rejudge_submission, submission_id=submission, dry_run=dry)
        return backend.call(
            service.rejudge_board, board=named, device=device, only_best=only_best, dry_run=dry
        )

    plan = work(True)
    if not as_json:
        show_plan(plan)
    if plan.jobs and not dry_run:
        confirm(plan, yes=yes, as_json=as_json)
        plan = work(False)
    if as_json:
        typer.echo(json.dumps(fields(plan)))
    elif not plan.dry_run:
        typer.echo(
            f"{plural(plan.jobs, 'result is', 'results are')} judged again; current results count until then"
        )


def confirm(plan: RejudgePlan, *, yes: bool, as_json: bool) -> None:
    """Ask for confirmation. Raise ``InvalidValue`` without a terminal to ask on."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise InvalidValue("not a terminal: inspect with --dry-run, confirm with --yes")
    typer.confirm(f"Judge {plural(plan.jobs, 'result')} again?", abort=True)


def list_lines(answer: Answer) -> Iterable[str]:
    """Return the lines of each review, and the next step."""
    if not answer.value:
        yield "no result waits for a decision"
        return
    yield from map(describe_review, answer.value)
    yield f"Next: kernelcup admin reviews show {answer.value[0].id}{answer.option}"


def review_lines(answer: Answer) -> Iterable[str]:
    """Return a review with its evidence, and the next steps."""
    review = answer.value
    yield describe_review(review)
    for line in evidence_lines(review.evidence):
        yield f"  {line}"
    if review.decision is None:
        yield f"Next: kernelcup submissions show {review.submission_id} --code{answer.option}"
        choice = f'kernelcup admin reviews decide {review.id} released|rejected --note "..."'
        yield f"then: {choice}{answer.option}"


def where_listed(answer: Answer) -> Mapping[type[KernelCupError], str]:
    """Return where to find the number of a review."""
    return {NotFound: f"kernelcup admin reviews list{answer.option}"}


def review_object(each: Review) -> dict[str, Any]:
    """Return a review as ``--json`` prints it."""
    same = ("id", "leaderboard", "device", "user", "score_s", "opened_at", "opened_by", "reason", "evidence")
    decided = ("decision", "decided_at", "decided_by", "note", "same_code")
    numbers = {"job": each.job_id, "run": each.run_id, "submission": each.submission_id}
    return json_object(each, *same, *decided, **numbers)


say(reviews.open_reviews, list_lines, listed("reviews", review_object))
say(reviews.get_review, review_lines, lambda answer: review_object(answer.value), where_listed)
say(
    reviews.decide,
    lambda answer: describe_review(answer.value),
    lambda answer: review_object(answer.value),
    where_listed,
)


@with_backend
def quarantine(
    backend: Backend,
    submission_id: SubmissionId,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to the author.")],
    device: Annotated[
        str | None,
        typer.Option("--device", "--gpu", "-d", help="Its result on this device; default: the only one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Take a submission's result out of the standings until a review decides."""
    check_reason(reason)
    with wiring.pointing_to(f"kernelcup submissions list{backend.option}", NotFound):
        job_id = judged_job(backend.submission(submission_id), device).id
        found = backend.call(reviews.quarantine, job_id=job_id, reason=reason, evidence=None)
    if as_json:
        typer.echo(json.dumps(review_object(found)))
        return
    typer.echo(describe_review(found))
    typer.echo(f"Next: kernelcup admin reviews show {found.id}{backend.option}")


def judged_job(view: SubmissionInfo, device: str | None) -> JobInfo:
    """Return a submission's job on a device, or its only one. Raise ``UnknownDevice`` or ``InvalidValue``."""
    names = ", ".join(job.device for job in view.jobs)
    if device is None:
        if len(view.jobs) != 1:
            raise InvalidValue(f"submission {view.id} has results on {names}: name one with --device")
        return view.jobs[0]
    for job in view.jobs:
        if job.device.lower() == device.lower():
            return job
    raise UnknownDevice(f"submission {view.id} has no result on {device!r}; it has {names}")


def show_plan(plan: RejudgePlan) -> None:
    """Print the plan for people."""
    if not plan.jobs:
        typer.echo("there is nothing to judge again")
    else:
        where = ", ".join(f"{device} {jobs}" for device, jobs in plan.by_device.items())
        told = f"{plural(plan.jobs, 'result')} of {plural(plan.submissions, 'submission')}"
        typer.echo(plain(f"to judge again: {told} ({where})"))
        typer.echo(
            f"  {plan.standing} are in the standings, {plan.other_version} belong to another version of "
            f"the task; {taking(plan)}"
        )
    for reason, jobs in plan.left_out.items():
        typer.echo(plain(f"  left out: {jobs} {reason}"))


def taking(plan: RejudgePlan) -> str:
    """Describe how long the devices will be busy."""
    if plan.estimated_gpu_s is None:
        return "unknown device time"
    return f"about {plan.estimated_gpu_s / 60:.1f} min of device time"


def describe_review(each: Review) -> str:
    """Return a review as one or two lines."""
    score = "no score" if each.score_s is None else duration(each.score_s * 1e9)
    who = f"submission {each.submission_id} by {each.user} to {each.leaderboard} on {each.device}"
    text = f"review {each.id}: job {each.job_id}, {who}, {score}: {each.reason} ({each.opened_by})"
    if each.decision is not None:
        text += f"\n  {each.decision} by {each.decided_by}: {each.note}"
    return plain(text + same_code_text(each, "\n  "))
