"""Routes for leaderboard managers and admins."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BeforeValidator, Field

from kernelcup.app.boards.deadlines import parse_end
from kernelcup.app.boards.problem_sync import SyncOptions
from kernelcup.app.boards.settings import KEEP
from kernelcup.http.api.forms import Form, Moment, moment
from kernelcup.http.dependencies import ActorDep, Now, PlatformDep
from kernelcup.http.route import ApiRoute
from kernelcup.http.syncing import sync_aside
from kernelcup_harness.protocol import HarnessKind

router = APIRouter(tags=["administration"], route_class=ApiRoute)


class SyncIn(Form):
    """A problem set in a git repository."""

    repository: str = Field(max_length=500, examples=["https://github.com/gpu-mode/reference-kernels"])
    branch: str = Field(default="main", min_length=1, max_length=200)
    problem_set: str | None = Field(default=None, max_length=200)
    force: bool = Field(
        default=False,
        description="Also apply changes after which entries must be judged again, and take checkers that accept "
        "wrong answers.",
    )
    preview: bool = Field(default=False, description="Change nothing; return what would change.")
    devices: list[Annotated[str, Field(max_length=100)]] = Field(
        default=[], max_length=50, description="Replaces the devices that each problem names."
    )
    deadline: Annotated[Moment, BeforeValidator(moment(parse_end))] | None = Field(
        default=None,
        description="Replaces each problem's own deadline; null removes it; if omitted, each keeps its own.",
    )
    harness: HarnessKind | None = Field(
        default=None,
        description="Harness of new leaderboards; null: the standard one if the task's own solutions pass under it.",
    )


@router.post("/problem-sets/sync")
async def sync(body: SyncIn, platform: PlatformDep, actor: ActorDep, now: Now) -> dict[str, Any]:
    """Create and update leaderboards from a git repository. Each person may run one sync at a time."""
    found = await sync_aside(
        platform,
        actor,
        repository=body.repository,
        branch=body.branch,
        problem_set=body.problem_set,
        options=SyncOptions(
            force=body.force,
            preview=body.preview,
            devices=body.devices,
            deadline=body.deadline if "deadline" in body.model_fields_set else KEEP,
            harness=body.harness,
            trial=platform.trial,
            known_devices=platform.config.devices,
        ),
        now=now,
    )
    return dataclasses.asdict(found)
