"""API routes authenticate a request before they read its body."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from kernelcup.domain import Actor, Role
from kernelcup.errors import SignInNeeded
from kernelcup.http.auth import SAFE_METHODS
from kernelcup.http.capacity import Room
from kernelcup.http.dependencies import ends_view, get_actor
from kernelcup.http.middleware import allow_body
from kernelcup.http.state import Platform
from kernelcup.http.throttle import watcher_of

LONG = ("/problem-sets/sync", "/update-problems", "/webhooks")
"""Paths whose work has its own threads, or waits for a name server before it writes."""

HEAVY = (".csv", ".zip", ".png")
"""Ends of the paths whose answers take long: whole rankings, archives, drawings."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ViewRoute(APIRoute):
    """A route that reads one state of the database, beginning with who asks.

    Not a stream, whose function is a coroutine, nor an answer that takes long: both would hold a transaction.
    """

    def get_route_handler(self) -> Handler:
        """Return the handler, which ends the transaction before the answer is sent."""
        if not inspect.iscoroutinefunction(self.endpoint):
            self.dependant.call = ends_view(self.endpoint)
        return super().get_route_handler()

    def view(self, request: Request) -> AbstractContextManager[object]:
        """Have reads of this request be one transaction, if it only reads."""
        is_short = not request.scope["path"].endswith(HEAVY)
        reads = request.method in SAFE_METHODS and not inspect.iscoroutinefunction(self.endpoint)
        platform: Platform = request.app.state.platform
        return platform.db.view() if reads and is_short else nullcontext()


class ApiRoute(ViewRoute):
    """A route whose changes need an account; it does not read bodies of anonymous requests."""

    def get_route_handler(self) -> Handler:
        """Return the handler, preceded by authentication."""
        handler = super().get_route_handler()
        known = query_keys(self.dependant)

        async def answer(request: Request) -> Response:
            platform: Platform = request.app.state.platform
            if request.method in SAFE_METHODS:
                async with platform.room.readers.enter():
                    with self.view(request):
                        if not request.query_params.keys() <= known:
                            await get_actor(request)
                            refuse_unknown(request, known)
                        return await handler(request)
            async with platform.room.readers.enter():
                actor = await get_actor(request)
            if actor.role is Role.NOBODY:
                raise SignInNeeded("Sign in first: this needs an account.")
            refuse_unknown(request, known)
            allow_body(request.scope)
            return await change(platform.room, actor, request, handler)

        return answer


def query_keys(dependant: Dependant) -> set[str]:
    """Return the query parameters that a route or its dependencies read."""
    mine = {each.alias for each in dependant.query_params}
    return mine.union(*(query_keys(each) for each in dependant.dependencies))


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise for unknown query parameters, so that misspelt ones are noticed."""
    unknown = [key for key in request.query_params if key not in known]
    if unknown:
        allowed = f"known here: {', '.join(sorted(known))}" if known else "this address takes none"
        raise RequestValidationError(
            [{"type": "unknown", "loc": ("query", key), "msg": f"is unknown; {allowed}"} for key in unknown]
        )


async def read_page(room: Room, request: Request, handler: Handler) -> Response:
    """Serve a page or a file once there is room for it."""
    async with room.readers.enter():
        actor = await get_actor(request)
        if not request.scope["path"].endswith(HEAVY):
            return await handler(request)
    async with room.heavy_reader(watcher_of(request, actor)):
        return await handler(request)


async def change(room: Room, actor: Actor, request: Request, handler: Handler) -> Response:
    """Serve a request that changes something, once it is fully read and there is room for it."""
    with room.person(actor):
        await request.body()  # a slow sender must not block other writers
        if request.scope["path"].endswith(LONG):
            return await handler(request)
        async with room.writers.enter():
            return await handler(request)
