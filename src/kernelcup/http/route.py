"""Routes of the API know who asks before they read what is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from kernelcup.domain import Actor, Role
from kernelcup.errors import SignInNeeded
from kernelcup.http.auth import SAFE_METHODS
from kernelcup.http.deps import get_actor
from kernelcup.http.middleware import allow_body
from kernelcup.http.platform import Platform
from kernelcup.http.room import Room

LONG = ("/problem-sets/sync", "/update-problems", "/webhooks")
"""Addresses whose work has threads of its own, or waits for a name server before it writes."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiRoute(APIRoute):
    """A route that changes something only for people with an account, and reads no body of others."""

    def get_route_handler(self) -> Handler:
        """Return the handler with the question who asks before it."""
        handler = super().get_route_handler()
        known = query_keys(self.dependant)

        async def answer(request: Request) -> Response:
            platform: Platform = request.app.state.platform
            platform.room.check()
            is_safe = request.method in SAFE_METHODS
            if is_safe and request.query_params.keys() <= known:
                return await handler(request)
            actor = await get_actor(request)
            if not is_safe and actor.role is Role.NOBODY:
                raise SignInNeeded("Sign in first: this needs an account.")
            refuse_unknown(request, known)
            allow_body(request.scope)
            return await change(platform.room, actor, request, handler)

        return answer


def query_keys(dependant: Dependant) -> set[str]:
    """Return the keys of the address that a route or its dependencies read."""
    mine = {each.alias for each in dependant.query_params}
    return mine.union(*(query_keys(each) for each in dependant.dependencies))


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise for keys of the address that the route does not know, so that a misspelt one is noticed."""
    unknown = [key for key in request.query_params if key not in known]
    if unknown:
        allowed = f"known here: {', '.join(sorted(known))}" if known else "this address takes none"
        raise RequestValidationError(
            [{"type": "unknown", "loc": ("query", key), "msg": f"is unknown; {allowed}"} for key in unknown]
        )


async def change(room: Room, actor: Actor, request: Request, handler: Handler) -> Response:
    """Serve a request that changes something, once it is read and there is room for it."""
    with room.person(actor):
        await request.body()  # whoever sends slowly keeps nobody from writing
        if request.scope["path"].endswith(LONG):
            return await handler(request)
        async with room.writer():
            return await handler(request)
