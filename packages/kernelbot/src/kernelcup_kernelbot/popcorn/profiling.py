"""The profile routes of the existing client: a job to ask for, and a stream with options.

The client spoke the first to another host, so that an operator may let ``POPCORN_BREV_PROFILER_URL`` name this one.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response, UploadFile
from sse_starlette import EventSourceResponse

from kernelcup.app.boards.boards import get_board
from kernelcup.app.queue import estimates
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.dependencies import Db, Now, Number, PlatformDep
from kernelcup.http.throttle import watcher_of
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import CaseResult, Mode, ProfileOptions, RunReport, StageName
from kernelcup_kernelbot.popcorn.auth import Caller
from kernelcup_kernelbot.popcorn.errors import PopcornRoute
from kernelcup_kernelbot.popcorn.forms import job_of, queue_of
from kernelcup_kernelbot.popcorn.results import zipped
from kernelcup_kernelbot.popcorn.streaming import followed
from kernelcup_kernelbot.popcorn.submitting import BOARD, take

router = APIRouter(route_class=PopcornRoute)

KNOWN = frozenset({"file", "leaderboard", "benchmark_index", "kernel_name", "launch_count"})


def options_of(
    benchmark_index: Annotated[str, Form(max_length=20)] = "",
    kernel_name: Annotated[str, Form(max_length=200)] = "",
    launch_count: Annotated[str, Form(max_length=20)] = "",
) -> ProfileOptions:
    """Return what to profile. Raise ``InvalidValue`` for a number that is none."""
    return ProfileOptions(
        benchmark=_number("benchmark_index", benchmark_index),
        kernel=kernel_name,
        launches=_number("launch_count", launch_count) or 0,
    )


def _number(name: str, text: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdecimal():
        raise InvalidValue(f"{name}: expected a number that is not negative.")
    return int(text)


Options = Annotated[ProfileOptions, Depends(options_of)]


async def unknown_fields(request: Request) -> list[str]:
    """Return the names of form fields that mean nothing here."""
    return [name[:60] for name in await request.form() if name not in KNOWN][:20]


@router.post(f"/profile/{BOARD}/{{gpu}}", response_class=EventSourceResponse)
def profile_and_stay(
    leaderboard: str,
    gpu: str,
    file: UploadFile,
    options: Options,
    unknown: Annotated[list[str], Depends(unknown_fields)],
    request: Request,
    platform: PlatformDep,
    caller: Caller,
    now: Now,
) -> EventSourceResponse:
    """Profile a file and follow it. Fields that are not known are ignored, and a status says so."""
    watcher = watcher_of(request, caller)
    platform.hub.check_room(watcher)
    submission = take(platform, caller, file, leaderboard, gpu, Mode.PROFILE, now, options)
    remarks = [f"Ignored: the form field {name!r} is not known here" for name in unknown]
    return followed(platform, request, submission.id, watcher, remarks)


@router.post("/profile")
def profile_as_job(
    file: UploadFile,
    leaderboard: Annotated[str, Form(max_length=200)],
    options: Options,
    platform: PlatformDep,
    caller: Caller,
    now: Now,
) -> dict[str, Any]:
    """Profile a file on the leaderboard's first device; the answer names the job to ask for."""
    board = get_board(platform.db, leaderboard, viewer=caller)
    submission = take(platform, caller, file, board.name, board.devices[0], Mode.PROFILE, now, options)
    return {"job_id": str(submission.id), "status": "queued"}


@router.get("/jobs/{number}")
def show_job(
    number: Number, request: Request, platform: PlatformDep, caller: Caller, now: Now
) -> dict[str, Any]:
    """Show how far a profile is, and where its files are."""
    view = estimates.with_waiting(platform.db, show_submission(platform.db, number, viewer=caller), now)
    job, waiting = job_of(view), queue_of(view)
    artifacts = []
    if job["status"] == "succeeded" and _profiled(view) is not None:
        address = request.url_for("get_profile", number=str(number))
        artifacts = [{"name": f"profile-{number}.zip", "url": str(address)}]
    return {
        "job_id": str(number),
        "status": job["status"],
        "queue_position": None if waiting is None else waiting["queued_jobs"],
        "error": job["error"],
        "artifacts": artifacts,
    }


@router.get("/jobs/{number}/profile.zip", name="get_profile")
def get_profile(number: Number, db: Db, caller: Caller) -> Response:
    """Send the files of a profile."""
    found = _profiled(show_submission(db, number, viewer=caller))
    if found is None:
        raise NotFound(f"Submission {number} has no profile.")
    report, case = found
    return Response(zipped(report, case, db), media_type="application/zip")


def _profiled(view: SubmissionInfo) -> tuple[RunReport, CaseResult] | None:
    for job in view.jobs:
        stage = job.report.stage_report(StageName.PROFILE) if job.report is not None else None
        if job.report is not None and stage is not None and stage.cases:
            return job.report, stage.cases[0]
    return None
