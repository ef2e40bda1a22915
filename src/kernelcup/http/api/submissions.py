"""Submissions: create, code, events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse
from sse_starlette import EventSourceResponse

from kernelcup.app.submissions import events
from kernelcup.app.submissions import submissions as service
from kernelcup.app.submissions.submit import submit
from kernelcup.domain import LARGEST_ID
from kernelcup.http import auth
from kernelcup.http.api.forms import ERRORS, STREAM, TEXT, EventOut, Page, SubmissionIn
from kernelcup.http.api.result_forms import SubmissionOut
from kernelcup.http.dependencies import ActorDep, After, Db, Limit, Now, Number, PlatformDep
from kernelcup.http.events import stream as live
from kernelcup.http.middleware import API
from kernelcup.http.route import ApiRoute
from kernelcup.http.throttle import watcher_of
from kernelcup.tasks.sources.submitted import pack_texts

router = APIRouter(prefix=f"{API}/submissions", tags=["submissions"], route_class=ApiRoute, responses=ERRORS)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=128,
        description="A repeated request with the same key has no further effect and returns the first answer.",
    ),
]


@router.post("", status_code=201, response_model=SubmissionOut)
def create(
    body: SubmissionIn,
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    key: IdempotencyKey = None,
    client: Annotated[str, Header(alias="X-KernelCup-Client", max_length=20)] = "api",
) -> Response:
    """Submit a file, or several. After this answer it is certain to be judged.

    Its events, and the submission itself, show what it waits for and for how long.
    """
    file_name, content = body.content()
    submission = submit(
        platform.db,
        user=actor,
        file_name=file_name,
        content=content,
        mode=body.mode,
        now=now,
        board=body.leaderboard,
        devices=body.devices,
        idempotency_key=key,
        client=client,
        known_devices=platform.config.devices,
        profile=None if body.profile is None else body.profile.options(),
    )
    made = SubmissionOut.of(service.fresh_view(platform.db, submission))
    # As JSON already: to make it of an object FastAPI waits for another turn in a thread.
    return Response(
        made.model_dump_json(),
        status_code=201,
        headers={"Location": f"/api/v1/submissions/{submission.id}"},
        media_type="application/json",
    )


@router.get("/{submission_id}/raw", response_class=Response, responses=TEXT)
def raw_code(submission_id: Number, db: Db, actor: ActorDep, now: Now) -> Response:
    """Return the code exactly as it was sent: one file as text, several as a zip."""
    code = service.get_code(db, submission_id, viewer=actor, now=now)
    if len(code.files) == 1:
        return PlainTextResponse(code.code)
    told = {"Content-Disposition": f'attachment; filename="submission-{submission_id}.zip"'}
    return Response(pack_texts(code.files), media_type="application/zip", headers=told)


@router.get("/{submission_id}/history")
def list_events(
    submission_id: Number, db: Db, actor: ActorDep, after: After = None, limit: Limit = 100
) -> Page[EventOut]:
    """List the events of a submission so far, oldest first."""
    service.check_follows(db, submission_id, viewer=actor)
    found = events.since(db, submission_id, after or 0, limit=limit + 1)
    items = [EventOut.of(each) for each in found[:limit]]
    return Page(items=items, next=items[-1].id if len(found) > limit else None)


@router.get("/{submission_id}/events", response_class=Response, responses=STREAM)
def follow(
    submission_id: Number,
    request: Request,
    platform: PlatformDep,
    actor: ActorDep,
    last_event_id: Annotated[int, Header(alias="Last-Event-ID", ge=0, le=LARGEST_ID)] = 0,
    after: Annotated[
        int,
        Query(ge=0, le=LARGEST_ID, description="Begin after this event, for example the last of `history`."),
    ] = 0,
) -> EventSourceResponse:
    """Follow a submission live, as server-sent events that end with `done`.

    Each event has an `id`; a client that reconnects with `Last-Event-ID` misses nothing. In addition,
    `waiting` events report place and estimate while a job waits.
    """
    watcher = watcher_of(request, actor)
    platform.hub.check_room(watcher)
    service.check_follows(platform.db, submission_id, viewer=actor)

    def check() -> None:
        reader = auth.resolve(request, platform.db, platform.clock())
        service.check_follows(platform.db, submission_id, viewer=reader)

    after_id = max(last_event_id, after)
    stream = live.follow(platform, submission_id, after_id=after_id, watcher=watcher, check=check)
    return EventSourceResponse(stream, ping=live.PING_S, headers={"Cache-Control": "no-store"})
