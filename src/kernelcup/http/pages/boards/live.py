"""Tells pages that a ranking changed: they then fetch themselves again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse

from kernelcup.app.boards.boards import find_board
from kernelcup.app.results import standings
from kernelcup.domain import Actor, Role
from kernelcup.errors import UserError
from kernelcup.http import auth
from kernelcup.http.dependencies import ActorDep, PlatformDep
from kernelcup.http.events.stream import PING_S, Message
from kernelcup.http.route import LaterRoute
from kernelcup.http.state import Platform
from kernelcup.http.throttle import watcher_of

POLL_S = 2.0
"""A change is told at most so much later; one look serves all who watch a ranking."""

CHECK_S = 10.0
"""So much later at most a stream ends whose reader lost the right to it."""

router = APIRouter(route_class=LaterRoute)

Key = tuple[str, str, int | None]


@dataclass
class Looks:
    """The last look at each ranking that is being watched."""

    revisions: dict[Key, tuple[float, str]] = field(default_factory=dict)
    locks: dict[Key, asyncio.Lock] = field(default_factory=dict)

    async def revision(self, platform: Platform, board: str, device: str, viewer: Actor) -> str:
        """Return the revision of a ranking, as of a moment ago. It raises what ``standings.revision`` does."""
        # Who manages no leaderboard sees what everybody sees.
        manages = viewer.role in (Role.CREATOR, Role.ADMIN)
        key = (board.lower(), device.lower(), viewer.user_id if manages else None)
        async with self.locks.setdefault(key, asyncio.Lock()):
            at, revision = self.revisions.get(key, (0.0, None))
            if revision is None or time.monotonic() - at > POLL_S / 2:
                revision = await to_thread.run_sync(_revision, platform, board, device, viewer)
                self.revisions[key] = (time.monotonic(), revision)
            return revision


def _revision(platform: Platform, board: str, device: str, viewer: Actor) -> str:
    with platform.db.view():  # whether it is frozen, and the revision, are of one moment
        return str(standings.revision(platform.db, board, device, viewer=viewer))


@router.get("/b/{name}/live")
async def follow(
    name: str,
    request: Request,
    platform: PlatformDep,
    actor: ActorDep,
    device: Annotated[str, Query(max_length=100)],
    since: Annotated[str, Query(max_length=100)] = "",
    last_event_id: Annotated[str, Header(alias="Last-Event-ID", max_length=100)] = "",
) -> EventSourceResponse:
    """Send an event ``standings`` whenever a ranking changes.

    Also if it has changed ``since`` the revision that the page shows, or since the connection was lost.
    """
    watcher = watcher_of(request, actor)
    platform.hub.check_room(watcher)
    looks = _looks(request)
    first = await to_thread.run_sync(_revision, platform, name, device, actor)
    last = last_event_id or since or first

    def check() -> Actor:
        reader = auth.resolve(request, platform.db, platform.clock())
        with platform.db.read() as session:
            find_board(session, name, reader)
        return reader

    stream = _changes(platform, looks, name, device, check, watcher, first, last)
    return EventSourceResponse(stream, ping=PING_S, headers={"Cache-Control": "no-store"})


async def _changes(
    platform: Platform,
    looks: Looks,
    board: str,
    device: str,
    check: Callable[[], Actor],
    watcher: str,
    revision: str,
    last: str,
) -> AsyncIterator[Message]:
    """Send an event for each revision but the last one that was shown, ``last`` at the beginning.

    ``check`` authenticates the reader again, and raises ``UserError`` unless they may see the leaderboard.
    """
    if not platform.hub.has_room(watcher):
        return
    with platform.hub.stream(watcher):
        try:
            viewer, checked = await to_thread.run_sync(check), time.monotonic()
            while True:
                if revision != last:
                    last = revision
                    yield {"event": "standings", "id": last, "data": last}
                await asyncio.sleep(POLL_S)
                if time.monotonic() - checked >= CHECK_S:
                    viewer, checked = await to_thread.run_sync(check), time.monotonic()
                revision = await looks.revision(platform, board, device, viewer)
        except UserError:
            return  # it was deleted, closed or renamed, or the reader lost the right: the page tells


def _looks(request: Request) -> Looks:
    if not hasattr(request.app.state, "looks"):
        request.app.state.looks = Looks()
    looks: Looks = request.app.state.looks
    return looks
