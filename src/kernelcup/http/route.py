"""Routes are analysed when they are first asked for; those of the API authenticate before they read a body."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Collection, Coroutine
from contextlib import nullcontext
from functools import partial
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from anyio import to_thread
from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.routing import compile_path

from kernelcup.domain import Role
from kernelcup.errors import SignInNeeded
from kernelcup.http.auth import SAFE_METHODS
from kernelcup.http.capacity import PLACE, SLOW_S, Room, metered
from kernelcup.http.dependencies import ends_view, get_actor, refuse_nul
from kernelcup.http.middleware import API, allow_body
from kernelcup.http.state import Platform

LONG = ("/problem-sets/sync", "/update-problems", "/webhooks")
"""Paths whose work has its own threads, or waits for a name server before it writes."""

HEAVY = (".csv", ".zip", ".png")
"""Ends of the paths whose answers take long: whole rankings, archives, drawings."""

LARGE_JSON_BYTES = 64 << 10

NEWEST = 0.1
"""The weight of the newest read in the processor time that a route's reads take on average."""

ANALYSING = threading.RLock()
"""Servers of one process have loops of their own."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Sent(Request):
    """A request whose JSON is read beside the loop if it is large.

    Python's scanner in C holds up all threads until it has read everything: 0.2 s for 4 MiB of brackets.
    """

    async def json(self) -> Any:
        """Return the body's content."""
        body, room = await self.body(), self.app.state.platform.room
        if len(body) <= LARGE_JSON_BYTES:
            return await super().json()
        read = partial(json.loads, body, cls=Patient)
        return await to_thread.run_sync(read, limiter=room.parsers)


class Patient(json.JSONDecoder):
    """Lets other threads run between values."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.scan_once = py_make_scanner(self)


class LaterRoute(APIRoute):
    """A route that FastAPI analyses when something of that is first asked for.

    It holds nothing of an application, so all applications of a process share it. Its path is the whole one; only the
    API's are described.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        self._settings: dict[str, Any] | None = settings
        self.path, self.endpoint = path, endpoint
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.methods = set(settings["methods"] or {"GET"})
        self.name = settings["name"] or endpoint.__name__
        self.include_in_schema = settings["include_in_schema"] and path.startswith(API)

    def __getattr__(self, name: str) -> Any:
        """Return what the analysis finds."""
        with ANALYSING:
            if self._settings is not None and not name.startswith("__"):
                given, self._settings = self._settings, None
                settings = self.settings(given)
                super().__init__(self.path, self.endpoint, **settings)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None

    def settings(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return what FastAPI is told of it."""
        dependencies = [Depends(refuse_nul), *given.get("dependencies", ())]
        return {**given, "dependencies": dependencies, "include_in_schema": self.include_in_schema}


class ViewRoute(LaterRoute):
    """A route that reads one state of the database, beginning with who asks.

    Not a stream, whose function is a coroutine, nor an answer that takes long: both would hold a transaction.
    """

    def get_route_handler(self) -> Handler:
        """Return the handler, which ends the transaction before the answer is sent."""
        if not inspect.iscoroutinefunction(self.endpoint):
            self.dependant.call = metered(ends_view(self.endpoint))
        return super().get_route_handler()

    async def read(self, request: Request, handler: Handler) -> Response:
        """Serve a read, in one transaction; one of a slow kind waits for a place among these."""
        platform: Platform = request.app.state.platform
        place, taken_s = PLACE.get(), platform.room.taken_s
        if taken_s.setdefault(self.endpoint, 2 * SLOW_S if self.path.endswith(HEAVY) else 0.0) > SLOW_S:
            await place.take(platform.room.slow_readers)
        is_long = request.scope["path"].endswith(HEAVY) or inspect.iscoroutinefunction(self.endpoint)
        try:
            with nullcontext() if is_long else platform.db.view():
                return await handler(request)
        finally:
            taken_s[self.endpoint] += (place.used_s - taken_s[self.endpoint]) * NEWEST

    async def change(self, request: Request, handler: Handler) -> Response:
        """Serve a change by a person with an account, once it is fully read and has a place among these."""
        room: Room = request.app.state.platform.room
        actor = await get_actor(request)
        if actor.role is Role.NOBODY:
            raise SignInNeeded("Sign in first: this needs an account.")
        allow_body(request.scope)
        sent = Sent(request.scope, request.receive)
        with room.person(actor):
            await sent.body()  # a slow sender must not block other writers
            if not request.scope["path"].endswith(LONG):
                await PLACE.get().take(room.writers)
            return await handler(sent)


class ApiRoute(ViewRoute):
    """A route whose changes need an account; it does not read bodies of anonymous requests."""

    def get_route_handler(self) -> Handler:
        """Return the handler, preceded by authentication."""
        handler = super().get_route_handler()
        known = query_keys(self.dependant)

        async def checked(request: Request) -> Response:
            if not request.query_params.keys() <= known:
                await get_actor(request)
                refuse_unknown(request, known)
            return await handler(request)

        async def answer(request: Request) -> Response:
            serve = self.read if request.method in SAFE_METHODS else self.change
            return await serve(request, checked)

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
