"""Schemas of what is shown of machines: the routes are those of operations."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from kernelcup.http.api.forms import Shown


class DeviceOut(Shown):
    """A named kind of accelerator."""

    name: str
    backend: str
    launcher: str
    slots: int
    description: str


class ReservationOut(Shown):
    """A time at which a machine judges for one leaderboard only, or for none."""

    id: int
    machine: str
    board: str | None = Field(description="Null for maintenance.")
    begins_at: datetime
    ends_at: datetime
    reason: str


class ComparisonOut(Shown):
    """What two machines say of the same work."""

    device: str
    first_class: str
    second_class: str
    pairs: int = Field(description="Submissions that both have judged.")
    disagree: list[int] = Field(description="Those whose intervals do not overlap.")
    ratio: float | None = Field(description="Median of the second one's times by the first one's.")
    canaries_ns: list[float]
    canaries_agree: bool | None
    agrees: bool | None = Field(description="Null if there is too little to say.")
