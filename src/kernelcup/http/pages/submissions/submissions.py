"""A submission's page: live while it is judged, then its report; its code, and what changed since an earlier
one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.queue import shown
from kernelcup.app.results import comparisons, profile_files, standings
from kernelcup.app.results.standings import Held
from kernelcup.app.submissions import events, withdrawal
from kernelcup.app.submissions import submissions as service
from kernelcup.app.submissions.events import Event
from kernelcup.app.submissions.submit import obstacles
from kernelcup.domain import LARGEST_ID, Actor, Role, Submission, Visibility
from kernelcup.engine.database import Database
from kernelcup.errors import Forbidden, InvalidValue, NotFound, UserError
from kernelcup.http.dependencies import ActorDep, Db, Now, Number, PlatformDep
from kernelcup.http.pages.admin.forms import add_form
from kernelcup.http.pages.figures import NS, TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.pages.submissions import difference
from kernelcup.http.pages.submissions.report_view import JobPage, job_page, steps_of
from kernelcup.http.pages.texts import LARGEST_COLOURED
from kernelcup.http.state import Platform
from kernelcup.reporting.made_of import by_time, made_of
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import SASS, HarnessKind, Mode, SourceTree

EARLIER = 6
MOST_EVENTS = 500
LIVE_EVENTS = (
    "waiting started progress finished queued quarantined released rejected cancelled rejudging done"
)

router = APIRouter(route_class=PageRoute)

Earlier = Annotated[int, Path(ge=1, le=LARGEST_ID)]
CaseNumber = Annotated[int, Path(ge=0, le=LARGEST_ID)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """A submission beside the form that it was sent with."""

    view: SubmissionInfo
    jobs: list[JobPage]
    live: str


def followed(db: Database, number: int, actor: Actor, now: datetime) -> Followed:
    """Return the progress of the viewer's own submission. Raises like showing it."""
    view = shown.show(db, actor, number, now=now)
    found = _events(db, number) if view.is_followed else []
    jobs = _jobs(view, found, _places(db, view, actor))
    return Followed(view=view, jobs=jobs, live=_live(view, found))


@router.get("/s/{number}")
def show_submission(number: Number, request: Request, db: Db, actor: ActorDep, now: Now) -> Response:
    """Show a submission, as far as the viewer may see it."""
    view = shown.show(db, actor, number, now=now)
    follows = view.is_followed
    found = _events(db, number) if follows else []
    code = _code(db, number, actor, now)
    held = _places(db, view, actor)
    jobs = _jobs(view, found, held)
    compared = _comparison(db, view, actor)
    ran = next((each.report.ran for each in jobs if each.report is not None and each.report.ran), [])
    return render(
        request,
        "submission.html",
        submission=view,
        jobs=jobs,
        has_card=_has_card(db, view, actor),
        around=[(device, each.before, each.after) for device, each in held.items()],
        beside=_own_beside(db, list(held), view, actor),
        follows=follows,
        own=actor.user_id is not None and actor.user_id == view.user_id,
        live=_live(view, found) if follows else "",
        live_events=LIVE_EVENTS,
        device_tabs=[(f"#{each}", each, False) for each in view.devices],
        cancellable=follows and not view.ended,
        comparison=compared,
        compared_scale=TimeScale.of(
            ns and ns / NS
            for case in (compared.cases if compared else ())
            for ns in (case.first_ns, case.second_ns)
        ),
        manages=_manages(db, view, actor),
        code=code,
        made_of=by_time(made_of(code.text), ran) if code is not None else None,
        shows_code=code is not None and len(code.text) <= LARGEST_COLOURED,
        earlier=_earlier(db, view, actor) if follows and not view.is_comparison else [],
    )


@router.get("/s/{number}/diff/{earlier}")
def show_difference(
    number: Number, earlier: Earlier, request: Request, platform: PlatformDep, actor: ActorDep, now: Now
) -> Response:
    """Show what changed from an earlier submission to this one, in text and in time.

    Of two users' submissions only the leaderboard's managers see the texts.
    """
    db = platform.db
    new, old = (service.show_submission(db, each, viewer=actor) for each in (number, earlier))
    _check_pair(new, old)
    files = None
    if new.user == old.user or _manages(db, new, actor):
        before, after = (service.get_code(db, each, viewer=actor, now=now) for each in (earlier, number))
        files = difference.files(before, after)
    return render(
        request,
        "difference.html",
        new=new,
        old=old,
        files=files,
        most_lines=difference.MOST_LINES,
        devices=difference.times(old, new),
        measurable=_measurable(platform, new, actor) if actor.user_id == new.user_id else [],
    )


@router.post("/s/{number}/diff/{earlier}")
def measure_both(
    number: Number,
    earlier: Earlier,
    platform: PlatformDep,
    actor: ActorDep,
    device: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Measure two submissions in turns, which is more precise than comparing their times."""
    made = comparisons.start(
        platform.db,
        actor,
        number,
        earlier,
        device=device or None,
        now=platform.clock(),
        known_devices=platform.config.devices,
    )
    return RedirectResponse(f"/s/{made.id}", 303)


@router.get("/s/{number}/trace/{job_id}/{case}")
def download_trace(number: Number, job_id: Number, case: CaseNumber, db: Db, actor: ActorDep) -> Response:
    """Send the profiler's trace of a case, for a viewer of traces."""
    view = service.show_submission(db, number, viewer=actor)
    found = [each.report for each in view.jobs if each.id == job_id and each.report is not None]
    traces = [
        every.trace_gz64
        for report in found
        for stage in report.stages
        for every in stage.cases
        if every.index == case and every.trace_gz64
    ]
    if not traces:
        raise NotFound(f"Submission {number} has no such trace.")
    try:
        body = base64.b64decode(traces[0], validate=True)
    except binascii.Error:
        raise NotFound(f"The trace of submission {number} cannot be read.") from None
    told = {"Content-Disposition": f'attachment; filename="trace-{number}-{case}.json.gz"'}
    return Response(body, media_type="application/gzip", headers=told)


@router.get("/s/{number}/profile/{job_id}/{name}")
def download_profile(number: Number, job_id: Number, name: str, db: Db, actor: ActorDep) -> Response:
    """Send a file of a profile or of a ranked run; the browser shows a listing."""
    view = service.show_submission(db, number, viewer=actor)
    report = next((each.report for each in view.jobs if each.id == job_id), None)
    if report is None:
        raise NotFound(f"Submission {number} has no such profile.")
    parts = profile_files.parts(db, report, name)
    if name == SASS:
        return StreamingResponse(parts, media_type="text/plain; charset=utf-8")
    told = {"Content-Disposition": f'attachment; filename="{number}-{name}"'}
    return StreamingResponse(parts, media_type="application/octet-stream", headers=told)


add_form(router, "/s/{submission_id}/cancel", withdrawal.cancel_submission, "/s/{submission_id}")


@router.post("/s/{number}/delete")
def delete(number: Number, db: Db, actor: ActorDep, now: Now) -> Response:
    """Delete a submission permanently; from a finished table its author withdraws it."""
    board = service.show_submission(db, number, viewer=actor).leaderboard
    done = withdrawal.delete_submission(db, number, by=actor, now=now)
    return RedirectResponse(f"/s/{number}" if done.withdrawn else f"/b/{board}", 303)


def _jobs(view: SubmissionInfo, found: list[Event], held: Mapping[str, Held]) -> list[JobPage]:
    pages = []
    for each in view.jobs:
        since = each.queued_at or view.created_at
        began = each.counted.started_at if each.counted is not None else since
        pages.append(
            job_page(
                each,
                steps=steps_of(found, each.id),
                place=held[each.device].place if each.device in held else None,
                waited_s=(began - since).total_seconds(),
            )
        )
    return pages


def _places(db: Database, view: SubmissionInfo, actor: Actor) -> dict[str, Held]:
    """Return the places that a submission holds, by device."""
    scored = [each.device for each in view.jobs if each.score is not None]
    if not scored:
        return {}
    return standings.places_of_submission(db, view.leaderboard, scored, view.id, viewer=actor)


def _has_card(db: Database, submission: Submission, actor: Actor) -> bool:
    """Return whether other sites may show something beside a link to a submission: all see it."""
    if submission.mode is not Mode.LEADERBOARD:
        return False
    return boards.get_board(db, submission.leaderboard, viewer=actor).visibility is Visibility.PUBLIC


def _manages(db: Database, submission: Submission, actor: Actor) -> bool:
    """Return whether the reader may put a submission's results aside."""
    if not access.has_role(actor, Role.CREATOR):
        return False
    try:
        boards.check_manages(db, actor, submission.leaderboard)
    except UserError:
        return False
    return True


def _events(db: Database, number: int) -> list[Event]:
    """Return the events of a submission, at most the latest ones."""
    found = events.since(db, number, 0, limit=MOST_EVENTS)
    while len(found) >= MOST_EVENTS and (more := events.since(db, number, found[-1].id, limit=MOST_EVENTS)):
        found = (found + more)[-MOST_EVENTS:]
    return found


def _live(view: SubmissionInfo, found: list[Event]) -> str:
    """Return the address of the page's event stream, empty if nothing more will happen."""
    if view.ended:
        return ""
    after = found[-1].id if found else 0
    return f"/api/v1/submissions/{view.id}/events?after={after}"


def _code(db: Database, number: int, actor: Actor, now: datetime) -> SourceTree | None:
    try:
        return service.get_code(db, number, viewer=actor, now=now)
    except Forbidden:
        return None


def _earlier(db: Database, submission: Submission, actor: Actor) -> list[SubmissionInfo]:
    """Return the same user's earlier submissions to the leaderboard, without comparisons."""
    found = service.list_views(
        db,
        viewer=actor,
        user=submission.user,
        board=submission.leaderboard,
        before_id=submission.id,
        limit=2 * EARLIER,
    )
    return [each for each in found if not each.is_comparison][:EARLIER]


def _own_beside(db: Database, ranked: list[str], submission: Submission, actor: Actor) -> int | None:
    """Return the reader's own result that another one's, which ranks, can be compared with; None without one."""
    if actor.user_id is None or actor.user_id == submission.user_id or not ranked:
        return None
    mine = standings.personal_best(db, submission.leaderboard, ranked[0], actor.name, viewer=actor)
    return None if mine is None or mine.submission_id == submission.id else mine.submission_id


def _measurable(platform: Platform, submission: Submission, actor: Actor) -> list[str]:
    """Return the devices on which a comparison may be asked for now."""
    board = boards.get_board(platform.db, submission.leaderboard, viewer=actor)
    emulated = boards.emulated_of(board.devices, platform.config.devices)
    if actor.user_id is None or board.harness is not HarnessKind.STANDARD:
        return []
    return [
        each
        for each in board.devices
        if each not in emulated
        and not obstacles(platform.db, actor, board, [each], now=platform.clock()).refusals
    ]


def _comparison(db: Database, view: SubmissionInfo, actor: Actor) -> comparisons.Comparison | None:
    """Return the comparison of a submission, None if it is not one."""
    if not view.is_comparison:
        return None
    return comparisons.show(db, view.id, viewer=actor)


def _check_pair(new: Submission, old: Submission) -> None:
    if new.leaderboard_id != old.leaderboard_id:
        raise InvalidValue(
            f"#{new.id} and #{old.id} do not belong to one leaderboard: there is nothing to compare."
        )
    if new.id == old.id:
        raise InvalidValue(f"#{new.id} cannot be compared with itself.")
