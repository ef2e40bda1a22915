"""The submissions to a leaderboard: all for its managers, and for others their own."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from kernelcup.app import access
from kernelcup.app.boards.deadlines import parse_end, parse_opening
from kernelcup.app.queue import shown
from kernelcup.app.results import rejudge
from kernelcup.app.results.common_errors import common_errors
from kernelcup.domain import LARGEST_ID
from kernelcup.errors import InvalidValue, SignInNeeded
from kernelcup.http.dependencies import ActorDep, Db, Now, Number
from kernelcup.http.pages.boards.boards import head_of
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute
from kernelcup_harness.protocol import Verdict

router = APIRouter(route_class=PageRoute)

PER_PAGE = 50
MOST_ERRORS = 8
Text = Annotated[str, Query(max_length=100)]
Before = Annotated[int | None, Query(ge=1, le=LARGEST_ID)]


@router.get("/b/{name}/submissions")
def show_submissions(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    user: Text = "",
    verdict: Text = "",
    device: Text = "",
    since: Text = "",
    until: Text = "",
    before: Before = None,
) -> Response:
    """Show a page of submissions, newest first."""
    head = head_of(db, name, "", viewer=actor, now=now)
    if actor.user_id is None:
        raise SignInNeeded("Sign in first: here stand your own submissions.")
    inspects = access.inspects_board(actor, head.board)
    chosen = {"user": user, "verdict": verdict, "device": device, "since": since, "until": until}
    problem, found = "", []
    try:
        found = shown.newest(
            db,
            actor,
            board=head.board.name,
            user=(user or None) if inspects else actor.name,
            verdict=Verdict(verdict) if verdict in list(Verdict) and inspects else None,
            device=device if device in head.board.devices else None,
            since=_moment(since, is_end=False),
            until=_moment(until, is_end=True),
            before_id=before,
            limit=PER_PAGE + 1,
        )
    except InvalidValue as error:
        problem = str(error)
    more = str(found[PER_PAGE - 1].id) if len(found) > PER_PAGE else ""
    rows: list[Any] = [(sent, job) for sent in found[:PER_PAGE] for job in sent.jobs]
    return render(
        request,
        "board_submissions.html",
        head=head,
        current="submissions",
        status=400 if problem else 200,
        problem=problem,
        inspects=inspects,
        chosen=chosen,
        verdicts=[each.value for each in Verdict],
        rows=rows,
        earlier=_earlier(rows),
        scale=TimeScale.of(job.score.score_s for _, job in rows if job.score),
        before=address(head.url("submissions"), **chosen) if before else "",
        more=address(head.url("submissions"), **chosen, before=more) if more else "",
        errors=common_errors(db, actor, name)[:MOST_ERRORS] if inspects and not before else [],
    )


@router.post("/s/{number}/rejudge")
def judge_again(number: Number, db: Db, actor: ActorDep, now: Now) -> Response:
    """Judge one submission again."""
    rejudge.rejudge_submission(db, actor, number, now=now)
    return RedirectResponse(f"/s/{number}", 303)


def _moment(text: str, *, is_end: bool) -> datetime | None:
    if not text.strip():
        return None
    return parse_end(text) if is_end else parse_opening(text)


def _earlier(rows: list[Any]) -> dict[int, int]:
    """Return by submission the one that its user sent before it, of those on the page."""
    found: dict[int, int] = {}
    newer: dict[str, int] = {}
    for sent, _ in rows:
        if (after := newer.get(sent.user)) is not None and after != sent.id:
            found.setdefault(after, sent.id)
        newer[sent.user] = sent.id
    return found
