"""Submit and follow: the stream ends with the result.

The newest client uses this for profiles, older ones for all modes. Refusals come
before the stream begins, each with its own status.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, cast

from anyio import to_thread
from fastapi import APIRouter, Request, UploadFile
from sse_starlette import EventSourceResponse
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope

from kernelcup.app.results.leader import beside
from kernelcup.app.submissions.submissions import check_follows, show_submission
from kernelcup.domain import Actor, JobState
from kernelcup.errors import KernelCupError
from kernelcup.http.dependencies import Db, Now, PlatformDep
from kernelcup.http.events import stream as live
from kernelcup.http.state import Platform
from kernelcup.http.throttle import watcher_of
from kernelcup.reporting.phrases import plural
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import Mode
from kernelcup_kernelbot.popcorn.auth import CLIENT_HEADERS, Caller, caller_again
from kernelcup_kernelbot.popcorn.errors import PopcornRoute, told
from kernelcup_kernelbot.popcorn.failures import summary
from kernelcup_kernelbot.popcorn.results import full_result, report_text
from kernelcup_kernelbot.popcorn.submitting import ANY_MODE, BOARD, take


class StreamRoute(PopcornRoute):
    """A route whose path begins with any name; an unknown mode is answered only for clients that identify
    themselves.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only our own modes, or requests that the client sent."""
        match, found = super().matches(scope)
        if match is Match.NONE or found["path_params"]["mode"] in list(Mode):
            return match, found
        known = any(name in Headers(scope=scope) for name in CLIENT_HEADERS)
        return (match, found) if known else (Match.NONE, {})


router = APIRouter(route_class=StreamRoute)

STATUS_S = 15.0
"""Interval of status events while a client waits."""

NO_PING_S = 24 * 3600
"""The status events keep the connection; the client knows nothing of comments."""

Message = dict[str, Any]


@router.post(f"/{BOARD}/{{gpu}}/{ANY_MODE}", response_class=EventSourceResponse)
def submit_and_stay(
    leaderboard: str,
    gpu: str,
    mode: Mode,
    file: UploadFile,
    request: Request,
    platform: PlatformDep,
    caller: Caller,
    now: Now,
) -> EventSourceResponse:
    """Submit a file and follow it. Disconnecting does not cancel it."""
    watcher = watcher_of(request, caller)
    platform.hub.check_room(watcher)
    submission = take(platform, caller, file, leaderboard, gpu, mode, now)
    return followed(platform, request, submission.id, watcher)


def followed(
    platform: Platform, request: Request, submission_id: int, watcher: str, remarks: Sequence[str] = ()
) -> EventSourceResponse:
    """Return the stream of a submission; ``remarks`` are told first."""

    def reader() -> Actor:
        found = caller_again(request)
        check_follows(platform.db, submission_id, viewer=found)
        return found

    stream = _stream(platform, reader, submission_id, watcher, remarks)
    # The client splits events at "\n\n" and knows no other end of a line.
    return EventSourceResponse(stream, sep="\n", ping=NO_PING_S, headers={"Cache-Control": "no-store"})


async def _stream(
    platform: Platform,
    reader: Callable[[], Actor],
    submission_id: int,
    watcher: str,
    remarks: Sequence[str] = (),
) -> AsyncIterator[Message]:
    begun = time.monotonic()
    text = f"Submission {submission_id} was accepted"

    def check() -> None:
        reader()

    follow = live.follow(platform, submission_id, after_id=0, watcher=watcher, check=check)
    follower = cast("AsyncGenerator[Message, None]", follow)
    waits: asyncio.Task[Message | None] | None = None
    try:
        yield _status(text, begun)
        for each in remarks:
            yield _status(each, begun)
        while True:
            waits = waits or asyncio.create_task(_next(follower))
            done, _ = await asyncio.wait({waits}, timeout=STATUS_S)
            if not done:
                yield _status(text, begun)
                continue
            event, waits = waits.result(), None
            if event is None:
                break
            news = _news(event)
            if news is not None and news != text:
                text = news
                yield _status(text, begun)
        yield await to_thread.run_sync(_end, platform, reader, submission_id)
    except KernelCupError as error:
        yield _error(error)
    finally:
        if waits is not None and not waits.done():
            waits.cancel()
            await asyncio.wait({waits})
        await follower.aclose()


async def _next(follower: AsyncGenerator[Message, None]) -> Message | None:
    return await anext(follower, None)


def _end(platform: Platform, reader: Callable[[], Actor], submission_id: int) -> Message:
    try:
        caller = reader()
        view = show_submission(platform.db, submission_id, viewer=caller)
    except KernelCupError as error:
        return _error(error)
    return _result(platform.db, beside(platform.db, view, viewer=caller))


def _error(error: KernelCupError) -> Message:
    status, detail = told(error)
    return _message("error", {"status": "error", "detail": detail, "status_code": status})


def _result(db: Db, view: SubmissionInfo) -> Message:
    shown = [(each, each.counted) for each in view.jobs if each.state is not JobState.CANCELLED]
    results = [full_result(each, run, view.mode, db) for each, run in shown if run is not None]
    if not results or not any(result["success"] for result in results):
        return _message("error", {"status": "error", "detail": summary(view.jobs) or "nothing was judged"})
    reports = [report_text(each, view.id) for each, run in shown if run is not None]
    return _message("result", {"status": "success", "results": results, "reports": reports})


def _status(text: str, begun: float) -> Message:
    elapsed = round(time.monotonic() - begun, 2)
    return _message("status", {"status": "processing", "elapsed_time": elapsed, "message": text})


def _message(event: str, data: dict[str, Any]) -> Message:
    return {"event": event, "data": json.dumps(data)}


def _news(event: Message) -> str | None:
    """Return the text for an event, None if it is no news for a waiting client."""
    body = json.loads(event["data"])
    data = body.get("data", {})
    match event["event"]:
        case "waiting":
            return "; ".join(_wait(each) for each in body["jobs"].values())
        case "started":
            return "The run has begun"
        case "progress":
            return _progress(data)
        case "queued":
            return f"It waits again: {data.get('reason')}"
        case "finished":
            return f"The run has ended: {data.get('verdict')}"
    return None


def _progress(data: dict[str, Any]) -> str:
    """Return the progress of a stage; its beginning and end have no case number."""
    case, cases = data.get("case"), data.get("cases")
    where = "" if cases is None else f": {plural(cases, 'case')}"
    return (
        f"Stage {data.get('stage')}{where if case is None or cases is None else f': case {case} of {cases}'}"
    )


def _wait(job: dict[str, Any]) -> str:
    starts = job.get("starts_in_s")
    if starts is None:
        return f"It waits: {job['reason']}"
    # In whole minutes: the text is sent whenever it changes.
    return f"It waits: {job['reason']} (starts within about {math.ceil(max(starts, 1) / 60)} min)"
