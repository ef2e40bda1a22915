"""Syncs of repositories take minutes, so they run in their own threads."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from anyio import CapacityLimiter, to_thread

from kernelcup.app.boards import problem_sync
from kernelcup.app.boards.problem_sync import SyncOptions, SyncResult
from kernelcup.domain import Actor
from kernelcup.http.state import Platform


async def sync_aside(
    platform: Platform,
    actor: Actor,
    *,
    repository: str,
    branch: str,
    problem_set: str | None,
    options: SyncOptions,
    now: datetime,
) -> SyncResult:
    """Sync in a separate thread. Raise ``RateLimited`` while other syncs run."""
    work = partial(
        problem_sync.sync_problem_set,
        platform.db,
        actor,
        repository=repository,
        branch=branch,
        problem_set=problem_set,
        options=options,
        now=now,
    )
    with platform.room.sync(actor):  # which bounds the threads
        return await to_thread.run_sync(work, limiter=CapacityLimiter(1))
