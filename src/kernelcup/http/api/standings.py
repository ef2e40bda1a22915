"""Rankings, one for each leaderboard and device."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from kernelcup.app.results import finals, freezes, standings
from kernelcup.domain import Final
from kernelcup.http.api.forms import Page
from kernelcup.http.api.result_forms import StandingOut
from kernelcup.http.dependencies import ActorDep, After, Db, Limit, Now
from kernelcup.http.route import ApiRoute

router = APIRouter(prefix="/leaderboards/{name}/standings/{device}", tags=["standings"], route_class=ApiRoute)


class RecordOut(BaseModel):
    """An improvement of a user's best result."""

    id: int
    user: str
    score_s: float
    submission: int
    at: datetime


class StandingsPage(Page[StandingOut]):
    """A part of a ranking."""

    frozen_since: datetime | None = Field(
        description="Time of the freeze, if frozen: later results, including yours, are not shown until the end."
    )
    classes: list[str] = Field(
        description="The classes of machines that rank for themselves, since they have not been shown to give the same "
        "times; empty while the device has one ranking. Without `class` one ranking follows the other."
    )
    final: Final | None = Field(
        description="The newest final of a closed leaderboard, with its official order; null without one, and on "
        "later pages."
    )
    waiting: int = Field(
        description="Users without a place whose results were judged against an earlier version of the task or by "
        "another harness, and rank once they are judged again; 0 on later pages."
    )
    unranked: list[StandingOut] = Field(
        description="Each user's best of a level that the leaderboard does not rank (see its `trust`), with ranks "
        "among themselves: at most 100, with the first page only."
    )


@router.get("")
def show_standings(
    name: str,
    device: str,
    db: Db,
    actor: ActorDep,
    now: Now,
    host_class: Annotated[
        str | None, Query(alias="class", max_length=1000, description="Only the ranking of one of `classes`.")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> StandingsPage:
    """Show the ranking, fastest first. Indistinguishable results share a rank."""
    offset = after or 0
    found = standings.standings(
        db, name, device, host_class=host_class, viewer=actor, limit=limit + 1, offset=offset
    )
    page = [StandingOut.of(each) for each in found[:limit]]
    since = freezes.frozen_since(db, name, viewer=actor, now=now)
    unranked = [] if offset else standings.unranked_standings(db, name, device, viewer=actor)
    final = None if offset else finals.show(db, name, device, viewer=actor, now=now)
    return StandingsPage(
        items=page,
        next=offset + limit if len(found) > limit else None,
        frozen_since=since,
        classes=standings.classes(db, name, device, viewer=actor),
        final=final,
        waiting=0 if offset else standings.count_waiting(db, name, device, viewer=actor),
        unranked=[StandingOut.of(each) for each in unranked],
    )


@router.get("/me")
def show_mine(name: str, device: str, db: Db, actor: ActorDep) -> StandingOut | None:
    """Show your own place; null without one. In a frozen ranking, the place at the time of the freeze."""
    found = standings.personal_best(db, name, device, actor.name, viewer=actor)
    return None if found is None else StandingOut.of(found)


@router.get("/history")
def show_history(
    name: str,
    device: str,
    db: Db,
    actor: ActorDep,
    user: Annotated[str | None, Query(max_length=100, description="Only this user's results.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Page[RecordOut]:
    """Show how users' bests improved, newest first."""
    found = standings.history(db, name, device, viewer=actor, user=user, before_id=after, limit=limit + 1)
    items = [
        RecordOut(id=each.id, user=each.user, score_s=each.score_s, submission=each.submission_id, at=each.at)
        for each in found[:limit]
    ]
    return Page(items=items, next=items[-1].id if len(found) > limit else None)
