"""Comparisons of two submissions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from kernelcup.app.results import comparisons
from kernelcup.app.results.comparisons import Comparison
from kernelcup.http.api.forms import Form
from kernelcup.http.dependencies import ActorDep, Db, Now, Number, PlatformDep
from kernelcup.http.route import ApiRoute
from kernelcup_harness.protocol import to_json

router = APIRouter(prefix="/compare", tags=["comparisons"], route_class=ApiRoute)


class CompareIn(Form):
    """Two submissions to the same leaderboard."""

    first: int = Field(ge=1, le=2**31 - 1)
    second: int = Field(ge=1, le=2**31 - 1)
    device: str | None = Field(
        default=None, max_length=100, description="Required if the leaderboard has several."
    )


class ComparedCaseOut(BaseModel):
    """A public case of both."""

    index: int
    parameters: dict[str, Any]
    first_ns: float | None = Field(description="By the first submission's own result; null without one.")
    second_ns: float | None
    ratio: float | None = Field(
        description="Time of the first over that of the second, measured in turns: the median of the blocks."
    )


class ComparisonOut(BaseModel):
    """Two submissions, measured in turns on one device."""

    id: int = Field(
        description="Also the number of the submission that stands for the comparison: follow, cancel or "
        "delete it there."
    )
    leaderboard: str
    device: str
    first: int | None = Field(description="Null if it was deleted.")
    second: int | None
    state: str
    verdict: str | None = Field(
        description="Verdict on the first submission's code; there is a result if it is accepted."
    )
    duel: dict[str, Any] | None = Field(
        description="Times of the first divided by times of the second: block by block, `ratio`, and its 98 % "
        "interval from `low` to `high`; `verdict` is `faster`, `slower` or `tied`."
    )
    sentence: str = Field(description="The result in words; empty before there is one.")
    cases: list[ComparedCaseOut] = Field(description="The public cases, once there is a result.")

    @classmethod
    def of(cls, found: Comparison) -> ComparisonOut:
        """Show a comparison."""
        return cls(**to_json(found))


@router.post("", status_code=201)
def start(
    body: CompareIn, response: Response, platform: PlatformDep, db: Db, actor: ActorDep, now: Now
) -> ComparisonOut:
    """Measure a submission of yours and another one in turns; managers of the leaderboard may choose any two.

    The other one is yours as well, or any result that ranks, once you have a place yourself; yours is then the
    first of the two, and no code of the other is shown. It waits in the queue like an unranked run. Follow it as
    the submission with the same number.
    """
    known = platform.config.devices
    found = comparisons.start(
        db, actor, body.first, body.second, device=body.device, now=now, known_devices=known
    )
    response.headers["Location"] = f"/api/v1/compare/{found.id}"
    return ComparisonOut.of(found)


@router.get("/{comparison_id}")
def show(comparison_id: Number, db: Db, actor: ActorDep) -> ComparisonOut:
    """Show a comparison that you requested, or one of a leaderboard that you manage."""
    return ComparisonOut.of(comparisons.show(db, comparison_id, viewer=actor))
