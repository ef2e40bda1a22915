"""The bell: a page of what concerns the reader, and a stream that tells how much of it is new."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from sse_starlette import EventSourceResponse

from kernelcup.app.news import bell
from kernelcup.domain import Actor
from kernelcup.errors import UserError
from kernelcup.http import auth
from kernelcup.http.dependencies import ActorDep, Db, PlatformDep
from kernelcup.http.events.stream import PING_S, Message
from kernelcup.http.pages.admin.forms import add_form
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.route import LaterRoute
from kernelcup.http.state import Platform
from kernelcup.http.throttle import watcher_of

POLL_S = 1.0
"""One look at the news serves all who listen."""
SHOWN = 100
CHECK_S = 10.0
"""So much later at most a stream ends whose reader signed out, and tells what was read in another browser."""

router = APIRouter(route_class=PageRoute)
live = APIRouter(route_class=LaterRoute)


@router.get("/bell")
def show(request: Request, db: Db, actor: ActorDep) -> Response:
    """Show what concerns the reader."""
    return render(request, "bell.html", bell=bell.show_bell(db, actor, limit=SHOWN))


add_form(router, "/bell/read", bell.read_bell, "/bell")
add_form(router, "/account/bell", bell.set_bell, "/account")


@dataclass
class Look:
    """The last look at the news: the number of the latest item that concerns each user."""

    latest: dict[int | None, int] = field(default_factory=dict)
    newest: int | None = None
    at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def latest_of(self, platform: Platform, user_id: int | None) -> int:
        """Return the number of the latest item that concerns a user, as of a moment ago; 0 for none since a while."""
        async with self.lock:
            if self.newest is None or time.monotonic() - self.at > POLL_S / 2:
                self.newest, found = await to_thread.run_sync(bell.concerned, platform.db, self.newest)
                self.latest |= found
                self.at = time.monotonic()
        return max(self.latest.get(user_id, 0), self.latest.get(None, 0))


@live.get("/bell/live")
async def follow(request: Request, platform: PlatformDep, actor: ActorDep) -> EventSourceResponse:
    """Send an event ``bell`` with the number of unread items, at first and at each change, or ``off``."""
    await to_thread.run_sync(bell.unread, platform.db, actor)
    platform.hub.check_room(watcher_of(request, actor))
    if not hasattr(request.app.state, "bells"):
        request.app.state.bells = Look()
    stream = _counts(request, platform, request.app.state.bells, watcher_of(request, actor))
    return EventSourceResponse(stream, ping=PING_S, headers={"Cache-Control": "no-store"})


async def _counts(request: Request, platform: Platform, look: Look, watcher: str) -> AsyncIterator[Message]:
    def check() -> tuple[Actor, int | None]:
        reader = auth.resolve(request, platform.db, platform.clock())
        return reader, bell.unread(platform.db, reader)

    if not platform.hub.has_room(watcher):
        return
    with platform.hub.stream(watcher):
        told, known, checked = -1, -1, float("-inf")
        try:
            while True:
                if time.monotonic() - checked >= CHECK_S:
                    reader, unread = await to_thread.run_sync(check)
                    checked = time.monotonic()
                    known = await look.latest_of(platform, reader.user_id)
                elif (latest := await look.latest_of(platform, reader.user_id)) != known:
                    known, unread = latest, await to_thread.run_sync(bell.unread, platform.db, reader)
                if unread is None:
                    yield {"event": "off", "data": ""}
                    return
                if unread != told:
                    told = unread
                    yield {"event": "bell", "data": str(unread)}
                await asyncio.sleep(POLL_S)
        except UserError:
            return  # the reader signed out or lost the right
