"""Rules for submissions: limits, pauses, invites, members, late exceptions."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from kernelcup.app.boards import late_exceptions, membership
from kernelcup.app.rules import limits, pauses
from kernelcup.http.api.forms import Done, Form, Reason, Until
from kernelcup.http.dependencies import ActorDep, Db, Now, Number, PlatformDep
from kernelcup.http.route import ApiRoute

router = APIRouter(tags=["rules"], route_class=ApiRoute)

Name = Annotated[str, Field(min_length=1, max_length=200)]


class LimitIn(Form):
    """A limit; omitted keys match everything."""

    text: str = Field(max_length=100, examples=["10/hour", "600 gpu-seconds/day", "20 cost/month"])
    leaderboard: Name | None = None
    user: Name | None = None
    device: Name | None = None
    launcher: Name | None = Field(
        default=None, description="A budget of what the machines of this launcher cost; its jobs wait."
    )
    mode_group: str | None = Field(
        default=None, max_length=20, description="`practice` (tests and benchmarks), `profile` or `ranked`."
    )
    per_user: bool = Field(
        default=True, description="Whether each user has the amount, or all users share it."
    )


class InviteIn(Form):
    """Invite codes to create."""

    leaderboards: list[Name] = Field(min_length=1, max_length=100)
    count: int = Field(default=1, ge=1, le=10_000)
    label: str = Field(default="", max_length=200)


class InvitesOut(BaseModel):
    """New invite codes."""

    codes: list[str]
    leaderboards: list[str]


class RevokedOut(BaseModel):
    """A revoked code."""

    code: str
    was_claimed: bool


class JoinIn(Form):
    """An invite code."""

    code: str = Field(min_length=1, max_length=200)


class JoinedOut(BaseModel):
    """The leaderboards that a code opened."""

    leaderboards: list[str]


class MemberIn(Form):
    """A member."""

    pseudonym: str | None = Field(default=None, max_length=64)


class ImportIn(Form):
    """A class list."""

    csv: str = Field(max_length=1_000_000, description="CSV with a header: `user` or `label`, `pseudonym`.")


class BudgetOut(BaseModel):
    """How much of a limit is left."""

    limit: str
    used: float
    remaining: float
    resets_at: datetime | None


@router.get("/limits")
def list_limits(db: Db, actor: ActorDep, leaderboard: str | None = None) -> list[dict[str, Any]]:
    """List limits: a leaderboard's for everyone who sees it, all for admins."""
    return [dataclasses.asdict(each) for each in limits.list_limits(db, actor, board=leaderboard)]


@router.post("/limits", status_code=201)
def add_limit(body: LimitIn, db: Db, actor: ActorDep, now: Now) -> dict[str, Any]:
    """Add a limit. Managers may limit their leaderboards; other limits are for admins."""
    made = limits.add_limit(
        db,
        actor,
        text=body.text,
        board=body.leaderboard,
        user=body.user,
        device=body.device,
        launcher=body.launcher,
        mode_group=body.mode_group,
        per_user=body.per_user,
        now=now,
    )
    return dataclasses.asdict(made)


@router.delete("/limits/{limit_id}")
def remove_limit(limit_id: Number, db: Db, actor: ActorDep, now: Now) -> Done:
    """Remove a limit."""
    limits.remove_limit(db, actor, limit_id, now=now)
    return Done()


@router.get("/budget")
def show_budget(
    leaderboard: Annotated[str, Query(max_length=200)],
    device: Annotated[str, Query(max_length=100)],
    db: Db,
    actor: ActorDep,
    now: Now,
) -> list[BudgetOut]:
    """Show how much you may still submit, for each limit that applies."""
    found = limits.budget(db, actor, board=leaderboard, device=device, now=now)
    return [
        BudgetOut(
            limit=each.limit.text,
            used=each.used,
            remaining=each.remaining,
            resets_at=each.resets_at,
        )
        for each in found
    ]


@router.get("/pauses")
def list_pauses(db: Db, actor: ActorDep) -> list[dict[str, Any]]:
    """List the pauses and their reasons."""
    return [dataclasses.asdict(each) for each in pauses.all_pauses(db, actor)]


@router.put("/pauses/service")
def pause_service(body: Reason, db: Db, actor: ActorDep, now: Now) -> Done:
    """Stop accepting submissions until the pause ends; accepted ones are still judged."""
    pauses.pause(db, actor, scope="service", key="", reason=body.reason, now=now)
    return Done()


@router.delete("/pauses/service")
def start_service(db: Db, actor: ActorDep, now: Now) -> Done:
    """Accept submissions again."""
    pauses.unpause(db, actor, scope="service", key="", now=now)
    return Done()


@router.put("/pauses/{scope}/{key}")
def pause(
    scope: str, key: str, body: Reason, db: Db, platform: PlatformDep, actor: ActorDep, now: Now
) -> Done:
    """Pause a `leaderboard` or a `device`."""
    known = [device.name for device in platform.config.devices]
    pauses.pause(db, actor, scope=scope, key=key, reason=body.reason, now=now, devices=known)
    return Done()


@router.delete("/pauses/{scope}/{key}")
def unpause(scope: str, key: str, db: Db, actor: ActorDep, now: Now) -> Done:
    """End the pause of a `leaderboard` or a `device`."""
    pauses.unpause(db, actor, scope=scope, key=key, now=now)
    return Done()


@router.post("/invites", status_code=201)
def make_invites(body: InviteIn, db: Db, actor: ActorDep, now: Now) -> InvitesOut:
    """Create codes, each of which lets one user into the leaderboards."""
    codes = membership.make_invites(db, actor, body.leaderboards, count=body.count, label=body.label, now=now)
    return InvitesOut(codes=codes, leaderboards=body.leaderboards)


@router.get("/leaderboards/{name}/invites")
def list_invites(name: str, db: Db, actor: ActorDep) -> list[dict[str, Any]]:
    """List a leaderboard's codes and the users who claimed them."""
    return [dataclasses.asdict(each) for each in membership.list_invites(db, actor, name)]


@router.delete("/invites/{code}")
def revoke_invite(code: str, db: Db, actor: ActorDep, now: Now) -> RevokedOut:
    """Revoke a code; a user who joined with it stays a member."""
    return RevokedOut(code=code, was_claimed=membership.revoke_invite(db, actor, code, now=now))


@router.post("/join")
def join(body: JoinIn, db: Db, actor: ActorDep, now: Now) -> JoinedOut:
    """Join leaderboards with a code."""
    return JoinedOut(leaderboards=membership.join(db, actor, body.code, now=now))


@router.get("/leaderboards/{name}/members")
def list_members(name: str, db: Db, actor: ActorDep) -> list[dict[str, Any]]:
    """List the members of a leaderboard."""
    return [dataclasses.asdict(each) for each in membership.members(db, actor, name)]


@router.put("/leaderboards/{name}/members/{user}")
def add_member(name: str, user: str, body: MemberIn, db: Db, actor: ActorDep, now: Now) -> Done:
    """Make a user a member, or change their pseudonym."""
    membership.add_member(db, actor, name, user, pseudonym=body.pseudonym, now=now)
    return Done()


@router.delete("/leaderboards/{name}/members/{user}")
def remove_member(name: str, user: str, db: Db, actor: ActorDep, now: Now) -> Done:
    """End a membership; submissions stay."""
    membership.remove_member(db, actor, name, user, now=now)
    return Done()


@router.post("/leaderboards/{name}/members/import")
def import_members(name: str, body: ImportIn, db: Db, actor: ActorDep, now: Now) -> dict[str, Any]:
    """Make everyone on a class list a member; people without an account get a code each."""
    return dataclasses.asdict(membership.import_members(db, actor, name, body.csv, now=now))


@router.get("/leaderboards/{name}/late")
def list_late(name: str, db: Db, actor: ActorDep) -> list[dict[str, Any]]:
    """List the users who may submit after the deadline."""
    return [dataclasses.asdict(each) for each in late_exceptions.late_exceptions(db, actor, name)]


@router.put("/leaderboards/{name}/late/{user}")
def grant_late(name: str, user: str, body: Until, db: Db, actor: ActorDep, now: Now) -> Done:
    """Let a user submit after the deadline."""
    late_exceptions.grant_late(db, actor, name, user, body.until, now=now)
    return Done()


@router.delete("/leaderboards/{name}/late/{user}")
def revoke_late(name: str, user: str, db: Db, actor: ActorDep, now: Now) -> Done:
    """Revoke a late exception."""
    late_exceptions.revoke_late(db, actor, name, user, now=now)
    return Done()
