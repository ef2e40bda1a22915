"""A user's page: where they stand, and what they submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kernelcup.app import access
from kernelcup.app.boards import boards
from kernelcup.app.results.profile import show_profile
from kernelcup.app.submissions.submissions import list_views
from kernelcup.domain import LARGEST_ID, Leaderboard, Role
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
    sees_waiting = profile.is_own or access.has_role(actor, Role.CREATOR)
    # Others' submissions cannot be opened until they are judged.
    shown = [each for each in views[:PER_PAGE] if sees_waiting or each.ended]
    rows = [row for view in shown for row in _rows(view, seen)]
    more = views[PER_PAGE - 1].id if len(views) > PER_PAGE else None
    return render(
        request,
        "user.html",
        profile=profile,
        rows=rows,
        scales=_scales(
            [
                *(((each.board.id, each.device), each.standing.score_s) for each in profile.bests),
                *(((sent.leaderboard_id, job.device), job.score.score_s) for sent, job in rows if job.score),
            ]
        ),
        before=before,
        more=more,
    )


def _scales(times: Sequence[tuple[tuple[int, str], float]]) -> dict[tuple[int, str], TimeScale]:
    """Return how times are written on each device of each leaderboard: two leaderboards share no unit."""
    return {key: TimeScale.of(score_s for of, score_s in times if of == key) for key, _ in times}


def _rows(view: SubmissionInfo, seen: dict[int, Leaderboard]) -> list[tuple[SubmissionInfo, JobInfo]]:
    """Return a submission on each device; its author reads why it does not rank."""
    board = seen.get(view.leaderboard_id)
    return [
        (view, each if board is None else replace(each, remark=remark(each, board))) for each in view.jobs
    ]
