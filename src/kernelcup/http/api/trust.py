"""The public record of the service: its state, its recent incidents, and flagged results."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BeforeValidator, Field

from kernelcup.app.results import docket
from kernelcup.app.status import DeviceState, IncidentKind, read_status
from kernelcup.http.api.forms import Page, QueueOut, Shown
from kernelcup.http.dependencies import ActorDep, After, Db, Limit, Now, PlatformDep
from kernelcup.http.route import ApiRoute

router = APIRouter(tags=["trust"], route_class=ApiRoute)


class DeviceStateOut(QueueOut):
    """The current state of a device."""

    description: str
    out: int = Field(serialization_alias="out_of_service", description="GPUs out of service.")
    calibrated_at: datetime | None
    calibrations: int = Field(description="In the period of the page.")
    drifts: int = Field(
        description="Calibrations of the last days whose reference kernel was slower than usual."
    )

    @classmethod
    def told(cls, state: DeviceState) -> DeviceStateOut:
        """Show a device."""
        own = {name: getattr(state, name) for name in cls.model_fields.keys() - QueueOut.model_fields.keys()}
        return cls(**QueueOut.of(state.queue).model_dump(), **own)


class IncidentOut(Shown):
    """An incident or a repair."""

    kind: IncidentKind
    device: str = Field(description="Empty for the whole service.")
    since: datetime
    until: datetime | None = Field(description="Null while it lasts, and for events without a duration.")
    is_open: bool = Field(serialization_alias="open")
    reason: str


class NoticeOut(Shown):
    """Machines that are reserved for one leaderboard, or under maintenance, now or later."""

    devices: list[str]
    machines: int = Field(description="How many.")
    is_maintenance: bool
    begins_at: datetime
    ends_at: datetime
    reason: str


class StatusOut(Shown):
    """The current state of the service, and its recent incidents."""

    paused: str | None = Field(description="Why no submissions are accepted; null if they are.")
    devices: list[Annotated[DeviceStateOut, BeforeValidator(DeviceStateOut.told)]]
    incidents: list[IncidentOut] = Field(description="Newest first.")
    notices: list[NoticeOut] = Field(description="What is announced or lasts, the first one first.")
    since: datetime = Field(description="Start of the listed period.")


class CaseFiguresOut(Shown):
    """Measurements of a public case."""

    case: int
    counted_ns: float | None
    floor_ns: float | None = Field(description="The least time that this device needs for the task.")


class DocketOut(Shown):
    """A result that was flagged or reviewed."""

    id: int
    board: str = Field(serialization_alias="leaderboard")
    device: str
    submission: int | None = Field(description="Null while it waits for a decision.")
    user: str = Field(
        description="Empty while it waits for a decision, and after its submission was deleted."
    )
    score_s: float | None
    opened_at: datetime
    by_rule: bool = Field(description="Whether a rule flagged it, rather than a person.")
    reason: str
    findings: list[str]
    cases: list[CaseFiguresOut] = Field(description="Public cases only.")
    decision: Literal["released", "rejected"] | None = Field(description="Null while it waits for a person.")
    decided_at: datetime | None
    deleted_at: datetime | None = Field(description="When its submission was deleted; null if it was not.")


@router.get("/status")
def show_status(platform: PlatformDep, db: Db, now: Now) -> StatusOut:
    """Show devices, queues, and the incidents and repairs of the last 14 days."""
    return StatusOut.of(read_status(db, platform.config.devices, now))


@router.get("/docket")
def show_docket(
    db: Db,
    actor: ActorDep,
    leaderboard: Annotated[str | None, Query(max_length=200, description="Only of this leaderboard.")] = None,
    after: After = None,
    limit: Limit = 50,
) -> Page[DocketOut]:
    """List the flagged or reviewed results of the leaderboards that you may see, newest first."""
    found = docket.entries(db, actor, board=leaderboard, before_id=after, limit=limit + 1)
    items = [DocketOut.of(each) for each in found[:limit]]
    return Page(items=items, next=items[-1].id if len(found) > limit else None)
