"""Syncs of repositories take minutes, so they run in their own threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from kernelcup.domain import Actor
from kernelcup.http.capacity import Room

T = TypeVar("T")


async def aside(room: Room, actor: Actor, work: Callable[[], T]) -> T:
    """Work in a separate thread. Raise ``RateLimited`` while other syncs run."""
    with room.sync(actor):  # which bounds the threads
        return await to_thread.run_sync(work, limiter=CapacityLimiter(1))
