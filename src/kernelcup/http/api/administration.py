"""Routes for leaderboard managers and admins."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from kernelcup.app import stats
from kernelcup.app.boards.changes import KEEP
from kernelcup.app.boards.problem_sync import SyncOptions
from kernelcup.app.results import rejudge, reviews
from kernelcup.http.api.forms import Form, Moment, Page
from kernelcup.http.api.leaderboards import Ending
from kernelcup.http.dependencies import ActorDep, After, Db, Limit, Now, Number, PlatformDep
from kernelcup.http.route import ApiRoute
from kernelcup.http.syncing import sync_aside
from kernelcup_harness.protocol import HarnessKind

router = APIRouter(tags=["administration"], route_class=ApiRoute)


class RejudgeIn(Form):
    """The results of a leaderboard to judge again."""

    device: str | None = Field(default=None, max_length=100)
    only_best: bool = Field(default=False, description="Only current entries of the ranking.")
    dry_run: bool = False


class DryRunIn(Form):
    """Whether to return only the plan."""

    dry_run: bool = False


class QuarantineIn(Form):
    """The reason to hold a result back."""

    reason: str = Field(min_length=1, max_length=500)
    evidence: dict[str, Any] = Field(default_factory=dict)


class DecisionIn(Form):
    """The decision of a reviewer."""

    decision: Literal["released", "rejected"]
    note: str = Field(min_length=1, max_length=2000)


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
    deadline: Ending | None = Field(
        default=None,
        description="Replaces each problem's own deadline; null removes it; if omitted, each keeps its own.",
    )
    harness: HarnessKind | None = Field(
        default=None,
        description="Harness of new leaderboards; null: the standard one if the task's own solutions pass under it.",
    )


@router.post("/leaderboards/{name}/rejudge")
def rejudge_board(name: str, body: RejudgeIn, db: Db, actor: ActorDep, now: Now) -> dict[str, Any]:
    """Judge a leaderboard's submissions again; old results count until new ones are ready."""
    plan = rejudge.rejudge_board(
        db, actor, name, device=body.device, only_best=body.only_best, dry_run=body.dry_run, now=now
    )
    return dataclasses.asdict(plan)


@router.post("/submissions/{submission_id}/rejudge")
def rejudge_submission(
    submission_id: Number, body: DryRunIn, db: Db, actor: ActorDep, now: Now
) -> dict[str, Any]:
    """Judge one submission again."""
    plan = rejudge.rejudge_submission(db, actor, submission_id, dry_run=body.dry_run, now=now)
    return dataclasses.asdict(plan)


@router.post("/jobs/{job_id}/quarantine")
def quarantine(job_id: Number, body: QuarantineIn, db: Db, actor: ActorDep, now: Now) -> dict[str, Any]:
    """Take a result out of the ranking until a review decides."""
    found = reviews.quarantine(db, actor, job_id, reason=body.reason, evidence=body.evidence, now=now)
    return dataclasses.asdict(found)


@router.get("/reviews")
def list_reviews(
    db: Db,
    actor: ActorDep,
    leaderboard: Annotated[str | None, Query(max_length=200)] = None,
    after: After = None,
    limit: Limit = 50,
) -> Page[dict[str, Any]]:
    """List the results that wait for a decision, with the evidence."""
    found = reviews.open_reviews(db, actor, leaderboard, after_id=after, limit=limit + 1)
    items = [dataclasses.asdict(each) for each in found[:limit]]
    return Page(items=items, next=found[limit - 1].id if len(found) > limit else None)


@router.get("/reviews/{review_id}")
def show_review(review_id: Number, db: Db, actor: ActorDep) -> dict[str, Any]:
    """Show one review."""
    return dataclasses.asdict(reviews.get_review(db, actor, review_id))


@router.post("/reviews/{review_id}/decision")
def decide(review_id: Number, body: DecisionIn, db: Db, actor: ActorDep, now: Now) -> dict[str, Any]:
    """Release a result into the ranking, or reject it."""
    found = reviews.decide(db, actor, review_id, decision=body.decision, note=body.note, now=now)
    return dataclasses.asdict(found)


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


@router.get("/stats")
def show_stats(
    db: Db,
    actor: ActorDep,
    now: Now,
    leaderboard: Annotated[str | None, Query(max_length=200)] = None,
    since: Moment | None = None,
) -> dict[str, Any]:
    """Count submissions, runs, waiting times and GPU time: of one leaderboard, or, for admins, of all."""
    return dataclasses.asdict(stats.stats(db, actor, board=leaderboard, since=since, now=now))
