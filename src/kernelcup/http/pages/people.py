"""A user's page: where they stand, and what they submitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kernelcup.app.boards import boards
from kernelcup.app.results.profile import show_profile
from kernelcup.app.submissions.submissions import list_views
from kernelcup.domain import LARGEST_ID, Leaderboard
from kernelcup.http.dependencies import ActorDep, Db
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.reporting.phrases import remark
from kernelcup.reporting.results import JobInfo, SubmissionInfo

router = APIRouter(route_class=PageRoute)

PER_PAGE = 30


@router.get("/u/{name}")
def show_user(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
) -> Response:
    """Show a user."""
    profile = show_profile(db, name, viewer=actor)
    views = list_views(db, viewer=actor, user=profile.name, before_id=before, limit=PER_PAGE + 1)
    seen = {each.id: each for each in boards.list_boards(db, viewer=actor)} if profile.is_own else {}
    rows = [row for view in views[:PER_PAGE] for row in _rows(view, seen)]
    more = views[PER_PAGE - 1].id if len(views) > PER_PAGE else None
    return render(
        request,
        "user.html",
        profile=profile,
        rows=rows,
        scale=TimeScale.of(each.standing.score_s for each in profile.bests),
        times=TimeScale.of(job.score.score_s for _, job in rows if job.score is not None),
        before=before,
        more=more,
    )


def _rows(view: SubmissionInfo, seen: dict[int, Leaderboard]) -> list[tuple[SubmissionInfo, JobInfo]]:
    """Return a submission on each device; its author reads why it does not rank."""
    board = seen.get(view.leaderboard_id)
    return [
        (view, each if board is None else replace(each, remark=remark(each, board))) for each in view.jobs
    ]
