"""Submit in the background: the answer has the submission's number."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Response, UploadFile
from starlette.convertors import Convertor, register_url_convertor

from kernelcup.app import access
from kernelcup.app.queue import estimates
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.app.submissions.submit import submit
from kernelcup.domain import Actor, Scope, Submission
from kernelcup.errors import NotFound
from kernelcup.http.dependencies import Now, PlatformDep
from kernelcup.http.state import Platform
from kernelcup.names import RESERVED_NAMES
from kernelcup_harness.protocol import Mode, ProfileOptions
from kernelcup_kernelbot.popcorn import forms
from kernelcup_kernelbot.popcorn.auth import Admin, Caller, WebId
from kernelcup_kernelbot.popcorn.errors import PopcornRoute


class BoardConvertor(Convertor[str]):
    """A possible name of a leaderboard: not the first part of one of our own paths."""

    regex = f"(?!(?i:{'|'.join(map(re.escape, sorted(RESERVED_NAMES)))})/)[^/]+"

    def convert(self, value: str) -> str:
        """Return the name."""
        return value

    def to_string(self, value: str) -> str:
        """Return the name."""
        return value


class ModeConvertor(Convertor[str]):
    """A mode in any case; the route refuses unknown modes and lists the valid ones."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the mode in small letters."""
        return value.lower()

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("popcorn_board", BoardConvertor())
register_url_convertor("popcorn_mode", ModeConvertor())

BOARD = "{leaderboard:popcorn_board}"
ANY_MODE = "{mode:popcorn_mode}"


router = APIRouter(route_class=PopcornRoute)

CLIENT = "popcorn"


@router.post(f"/submission/{BOARD}/{{gpu}}/{ANY_MODE}", status_code=202)
def submit_in_background(
    leaderboard: str,
    gpu: str,
    mode: Mode,
    file: UploadFile,
    response: Response,
    platform: PlatformDep,
    caller: Caller,
    now: Now,
    web_id: WebId = None,
) -> dict[str, Any]:
    """Submit a file. After this answer it is certain to be judged."""
    submission = take(platform, caller, file, leaderboard, gpu, mode, now)
    if web_id:
        response.status_code = 200  # the existing web site treats any other status as a failure
    return _accepted(platform, submission, caller, now)


@router.post(f"/admin/submission/{BOARD}/{{gpu}}/{ANY_MODE}", status_code=202)
def submit_as_admin(
    leaderboard: str, gpu: str, mode: Mode, file: UploadFile, platform: PlatformDep, admin: Admin, now: Now
) -> dict[str, Any]:
    """Submit a file as an admin, with the token of an admin instead of a client's.

    After the deadline the leaderboard's own rule decides, as for everyone: the answer says what it is.
    """
    submission = take(platform, admin, file, leaderboard, gpu, mode, now)
    return _accepted(platform, submission, admin, now)


def _accepted(platform: Platform, submission: Submission, caller: Actor, now: Now) -> dict[str, Any]:
    view = show_submission(platform.db, submission.id, viewer=caller)
    return {
        "status": "accepted",
        # A submission from here has one device, so one job.
        "details": {"id": submission.id, "job_status_id": view.jobs[0].id},
        "runner_queue": forms.queue_of(estimates.with_waiting(platform.db, view, now)),
    }


@router.get("/runner_queue/{gpu}")
def show_queue(gpu: str, platform: PlatformDep, now: Now) -> dict[str, Any]:
    """Show how long the queue of a GPU is."""
    names = {device.name.lower(): device.name for device in platform.config.devices}
    name = names.get(gpu.lower())
    if name is None:
        raise NotFound(f"There is no GPU {gpu!r} here, only {', '.join(names.values()) or 'none'}.")
    queues = estimates.queue_status(platform.db, now)
    queue = next((each for each in queues if each.device == name), None)
    free = max(queue.slots - queue.running, 0) if queue is not None else 0
    return {
        "runner": forms.SERVICE,
        "gpu": name,
        "queued_jobs": queue.queued if queue is not None else 0,
        "running_jobs": queue.running if queue is not None else 0,
        "available_runners": free,
        "status": "available" if queue is not None and queue.dispatchers else "unavailable",
        "error": queue.paused or queue.obstacle if queue is not None else "no machine serves it now",
    }


def take(
    platform: Platform,
    caller: Actor,
    file: UploadFile,
    leaderboard: str,
    gpu: str | None,
    mode: Mode,
    now: Now,
    profile: ProfileOptions | None = None,
) -> Submission:
    """Store the submission."""
    access.require(caller, Scope.SUBMIT)
    return submit(
        platform.db,
        user=caller,
        file_name=file.filename or "submission.py",
        content=file.file.read(),
        mode=mode,
        now=now,
        board=leaderboard,
        devices=[] if gpu is None else [gpu],
        client=CLIENT,
        known_devices=platform.config.devices,
        profile=profile,
    )
