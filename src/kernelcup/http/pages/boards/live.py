"""Tells pages that a ranking changed: they then fetch themselves again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Annotated
from zlib import crc32

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse

from kernelcup.app.boards.boards import find_board
from kernelcup.app.results import standings
from kernelcup.app.results.queries.standings import State
from kernelcup.domain import Actor, Role
from kernelcup.errors import UserError
from kernelcup.http import auth
from kernelcup.http.dependencies import ActorDep, PlatformDep
from kernelcup.http.events.stream import PING_S, Message
from kernelcup.http.state import Platform
from kernelcup.http.throttle import watcher_of

POLL_S = 2.0
"""A change is told at most so much later; one look serves all who watch a ranking."""

CHECK_S = 10.0
"""So much later at most a stream ends whose reader lost the right to it."""

router = APIRouter()

Key = tuple[str, str, int | None]


@dataclass
class Looks:
    """The last look at each ranking that is being watched."""

    states: dict[Key, tuple[float, State]] = field(default_factory=dict)
    locks: dict[Key, asyncio.Lock] = field(default_factory=dict)

    async def state(self, platform: Platform, board: str, device: str, viewer: Actor) -> State:
        """Return in which state a ranking is, as of a moment ago. It raises what ``standings.state`` does."""
        # Who manages no leaderboard sees what everybody sees.
        manages = viewer.role in (Role.CREATOR, Role.ADMIN)
        key = (board.lower(), device.lower(), viewer.user_id if manages else None)
        async with self.locks.setdefault(key, asyncio.Lock()):
            at, state = self.states.get(key, (0.0, None))
            if state is None or time.monotonic() - at > POLL_S / 2:
                state = await to_thread.run_sync(
                    lambda: standings.state(platform.db, board, device, viewer=viewer)
                )
                self.states[key] = (time.monotonic(), state)
            return state


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

    Also if it has changed ``since`` the state that the page shows (see :func:`state_name`), or since the connection
    was lost.
    """
    watcher = watcher_of(request, actor)
    platform.hub.check_room(watcher)
    looks = _looks(request)
    first = await to_thread.run_sync(lambda: standings.state(platform.db, name, device, viewer=actor))
    last = last_event_id or since or state_name(first)

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
    state: State,
    last: str,
) -> AsyncIterator[Message]:
    """Send an event for each state that differs from the last one that was shown, ``last`` at the beginning.

    ``check`` authenticates the reader again, and raises ``UserError`` unless they may see the leaderboard.
    """
    if not platform.hub.has_room(watcher):
        return
    try:
        viewer, checked = await to_thread.run_sync(check), time.monotonic()
    except UserError:
        return
    with platform.hub.stream(watcher):
        while True:
            if state_name(state) != last:
                last = state_name(state)
                yield {"event": "standings", "id": last, "data": str(state.entries)}
            await asyncio.sleep(POLL_S)
            try:
                if time.monotonic() - checked >= CHECK_S:
                    viewer, checked = await to_thread.run_sync(check), time.monotonic()
                state = await looks.state(platform, board, device, viewer)
            except UserError:
                return  # it was deleted, closed or renamed, or the reader lost the right: the page tells


def state_name(state: State) -> str:
    """Return what pages and streams call a state of a ranking."""
    classes = crc32("\n".join([*state.classes, str(state.letters)]).encode())
    return f"{state.entries}-{state.newest}-{state.submissions}-{state.scores!r}-{classes:x}"


def _looks(request: Request) -> Looks:
    if not hasattr(request.app.state, "looks"):
        request.app.state.looks = Looks()
    looks: Looks = request.app.state.looks
    return looks
