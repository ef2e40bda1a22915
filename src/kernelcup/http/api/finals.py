"""Finals: the official order of a closed leaderboard."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from kernelcup.app.results import finals
from kernelcup.domain import Compared, Final
from kernelcup.errors import NotFound
from kernelcup.http.api.forms import Form
from kernelcup.http.dependencies import ActorDep, Db, Now
from kernelcup.http.route import ApiRoute
from kernelcup.reporting.finals import as_object

router = APIRouter(prefix="/leaderboards/{name}/final", tags=["finals"], route_class=ApiRoute)


class FinalIn(Form):
    """Which final to hold."""

    device: str | None = Field(
        default=None, max_length=100, description="Required if the leaderboard has several."
    )
    top: int = Field(
        default=finals.TOP,
        ge=finals.FEWEST,
        le=finals.MOST,
        description="How many of the best take part; so do results that share the rank of the last one.",
    )
    again: bool = Field(
        default=False, description="Hold another final, whose order replaces that of the last."
    )


class FinalPlaceOut(BaseModel):
    """A place in the official order."""

    place: int = Field(description="Shared by entries that cannot be told apart.")
    tied: bool
    user: str = Field(description="Empty once the submission was deleted.")
    submission: int
    rank: int = Field(description="Its rank in the standings when the final began.")
    score_s: float = Field(description="Its time in the standings, with its 95 % interval.")
    low_s: float | None
    high_s: float | None


class MeetingOut(BaseModel):
    """Two submissions of a final, and which is faster."""

    first: int
    second: int
    by: Compared = Field(
        description="`duel`: measured in turns. `intervals`: by their ranked times, for the reason in `why`."
    )
    ratio: float | None = Field(
        description="Time of the first divided by time of the second, with its simultaneous interval; null if "
        "nothing is known."
    )
    low: float | None
    high: float | None
    faster: int | None = Field(description="Null if the two cannot be told apart.")
    why: str
    comparison: int | None = Field(description="The submission that stands for their duel in the queue.")
    sentence: str


class FinalOut(BaseModel):
    """A final of one leaderboard and device."""

    id: int
    leaderboard: str
    device: str
    entries: int = Field(description="How many submissions take part.")
    error: float = Field(description="In this share of finals, at most, an interval misses.")
    started_by: str
    started_at: datetime
    ended_at: datetime | None = Field(description="Null while duels are held.")
    places: list[FinalPlaceOut] = Field(description="The official order; empty until the final has ended.")
    meetings: list[MeetingOut]
    void: list[int] = Field(
        description="Submissions whose results were put aside since: the order does not hold any more."
    )
    waiting: int | None = Field(description="The submission that stands for the duel in the queue now.")
    sentence: str

    @classmethod
    def of(cls, final: Final) -> FinalOut:
        """Show a final."""
        return cls(**as_object(final))


@router.post("", status_code=201)
def start(name: str, body: FinalIn, db: Db, actor: ActorDep, now: Now) -> FinalOut:
    """Have the best of a closed leaderboard meet in duels, which decide about the official order.

    Duels wait in the queue one after the other. A final that has stopped, because its duel was deleted, goes on.
    """
    found = finals.start(
        db,
        actor,
        name,
        device=body.device,
        top=body.top,
        again=body.again,
        now=now,
    )
    return FinalOut.of(found)


@router.get("")
def show(
    name: str,
    db: Db,
    actor: ActorDep,
    now: Now,
    device: Annotated[
        str | None, Query(max_length=100, description="Required if the leaderboard has several.")
    ] = None,
) -> FinalOut:
    """Show the newest final of a leaderboard; there is none while a freeze hides the standings."""
    found = finals.show(db, name, device, viewer=actor, now=now)
    if found is None:
        raise NotFound(f"Leaderboard {name!r} has had no final.")
    return FinalOut.of(found)
