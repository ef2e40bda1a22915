"""The user's own submissions: list, show, delete; join a members-only leaderboard."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field

from kernelcup.app import access
from kernelcup.app.courses import joining
from kernelcup.app.queue import estimates
from kernelcup.app.submissions import submissions as service
from kernelcup.app.submissions import withdrawal
from kernelcup.domain import Actor, Scope
from kernelcup.errors import Forbidden
from kernelcup.http.api.forms import Body
from kernelcup.http.dependencies import Db, Now, Number
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_kernelbot.popcorn import forms
from kernelcup_kernelbot.popcorn.auth import Caller
from kernelcup_kernelbot.popcorn.errors import PopcornRoute

router = APIRouter(prefix="/user", route_class=PopcornRoute)

LARGEST_OFFSET = 10_000


class JoinIn(Body):
    """An invite code."""

    code: str | None = Field(default=None, max_length=200)


@router.get("/submissions")
def list_all(
    db: Db,
    caller: Caller,
    leaderboard: Annotated[str | None, Query(max_length=200)] = None,
    limit: int = 50,
    offset: int = 0,
) -> list[dict[str, Any]]:
    """List the user's own submissions, newest first."""
    check_page(limit, offset, largest=100)
    access.require(caller, Scope.READ)
    found = service.list_views(db, viewer=caller, user=caller.name, board=leaderboard, limit=offset + limit)
    return [forms.of_list(view) for view in found[offset:]]


@router.get("/submissions/{submission_id}")
def show(submission_id: Number, db: Db, caller: Caller, now: Now) -> dict[str, Any]:
    """Show the user's own submission: its state and result."""
    access.require(caller, Scope.READ)
    return show_own(db, submission_id, caller, now)


@router.delete("/submissions/{submission_id}")
def delete(submission_id: Number, db: Db, caller: Caller, now: Now) -> dict[str, Any]:
    """Delete the user's own submission permanently."""
    access.require(caller, Scope.SUBMIT)
    check_own(service.show_submission(db, submission_id, viewer=caller), caller)
    done = withdrawal.delete_submission(db, submission_id, by=caller, now=now)
    return {"status": "ok", "submission_id": submission_id} | ({"withdrawn": True} if done.withdrawn else {})


@router.post("/join")
def join(body: JoinIn, db: Db, caller: Caller, now: Now) -> dict[str, Any]:
    """Join leaderboards with a code."""
    if not body.code:
        raise HTTPException(400, "Missing required field: code")
    return {"status": "ok", "leaderboards": joining.join(db, caller, body.code, now=now).leaderboards}


def show_own(db: Db, submission_id: int, actor: Actor, now: Now) -> dict[str, Any]:
    """Return a submission in full for its author. Raise ``Forbidden`` for others."""
    view = service.show_submission(db, submission_id, viewer=actor)
    check_own(view, actor)
    return show_in_full(db, view, actor, now)


def show_in_full(db: Db, view: SubmissionInfo, actor: Actor, now: Now) -> dict[str, Any]:
    """Return a submission with its code and its place in the queue."""
    code = service.get_code(db, view.id, viewer=actor, now=now)
    return forms.of_submission(estimates.with_waiting(db, view, now), code.text)


def check_own(view: SubmissionInfo, actor: Actor) -> None:
    """Raise ``Forbidden`` unless the actor is the author; admins have their own paths."""
    if view.user_id != actor.user_id:
        raise Forbidden("Not authorized to view this submission")


def check_page(limit: int, offset: int, *, largest: int) -> None:
    """Raise for an invalid page."""
    if not 1 <= limit <= largest:
        raise HTTPException(400, f"limit must be between 1 and {largest}")
    if not 0 <= offset <= LARGEST_OFFSET:
        raise HTTPException(400, f"offset must be >= 0 and at most {LARGEST_OFFSET}")
