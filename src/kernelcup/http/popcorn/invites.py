"""Invite codes for closed leaderboards, for admins."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from pydantic import Field

from kernelcup.app.boards import boards, membership
from kernelcup.domain.answers import Invite
from kernelcup.http.api.forms import Body
from kernelcup.http.dependencies import Db, Now
from kernelcup.http.popcorn import forms
from kernelcup.http.popcorn.auth import Admin
from kernelcup.http.popcorn.errors import PopcornRoute

router = APIRouter(prefix="/admin", route_class=PopcornRoute)

MOST_CODES = 10_000


class InvitesIn(Body):
    """Which leaderboards the codes open, and how many."""

    leaderboards: list[str] | None = Field(default=None, max_length=100)
    leaderboard: str | None = None
    count: int = 1


@router.post("/invites")
def make(body: InvitesIn, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Create codes."""
    named = body.leaderboards or ([body.leaderboard] if body.leaderboard else [])
    if not named:
        raise HTTPException(400, "Must provide 'leaderboards' list or 'leaderboard' string")
    if not 1 <= body.count <= MOST_CODES:
        raise HTTPException(400, f"count must be an integer between 1 and {MOST_CODES}")
    names = [boards.get_board(db, name, viewer=admin).name for name in named]
    codes = membership.make_invites(db, admin, names, count=body.count, now=now).codes
    return {"status": "ok", "codes": codes, "leaderboards": names}


@router.get("/leaderboards/{leaderboard}/invites")
def list_all(leaderboard: str, db: Db, admin: Admin) -> dict[str, Any]:
    """List a leaderboard's codes and the users who claimed them."""
    board = boards.get_board(db, leaderboard, viewer=admin)
    found = membership.list_invites(db, admin, board.name)
    return {"status": "ok", "leaderboard": board.name, "invites": [_invite(each) for each in found]}


@router.delete("/invites/{code}")
def revoke(code: str, db: Db, admin: Admin, now: Now) -> dict[str, Any]:
    """Revoke a code."""
    was_claimed = membership.revoke_invite(db, admin, code, now=now).was_claimed
    return {"status": "ok", "code": code, "was_claimed": was_claimed}


def _invite(each: Invite) -> dict[str, Any]:
    return {
        "code": each.code,
        "user_id": each.claimed_by,
        "user_name": each.claimed_by,
        "claimed_at": forms.iso(each.claimed_at),
        "created_at": forms.iso(each.created_at),
    }
