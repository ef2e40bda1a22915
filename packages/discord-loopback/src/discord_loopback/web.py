"""The HTTP side: routing, tokens, bodies, ordered faults and rate limits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from .errors import Json, Refusal, invalid_form
from .ratelimits import refusal
from .world import TOKEN, Request, World

API = "/api/v10"
MAX_BODY = 256 * 1024 * 1024


@dataclass(frozen=True)
class Upload:
    """A file of a request: ``files[3]`` has the index 3."""

    index: int
    filename: str
    data: bytes


@dataclass(frozen=True)
class Call:
    """A request that passed the door: who it is for, and what it says."""

    world: World
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    files: list[Upload] = field(default_factory=list)

    def id(self, name: str) -> int:
        """A number of the path."""
        value = self.path[name]
        if not value.isdecimal():
            raise invalid_form(name, "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')
        return int(value)


Answer = Json | list[Json] | None
Handler = Callable[[Call], Awaitable[Answer]]
ROUTES: list[tuple[str, str, Handler]] = []
_NO_TOKEN = ("/interactions/", "/webhooks/")


def route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Put a function at a path of the API."""

    def put(handler: Handler) -> Handler:
        ROUTES.append((method, path, handler))
        return handler

    return put


def json_response(data: Answer, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """JSON as Discord sends it: discord.py parses only this exact Content-Type, without a charset."""
    body = json.dumps(data).encode()
    return web.Response(
        body=body, status=status, headers={**(headers or {}), "Content-Type": "application/json"}
    )


def add_routes(app: web.Application, world: World) -> None:
    """Put every route of the API into an application."""
    for method, path, handler in ROUTES:
        app.router.add_route(method, API + path, _endpoint(world, path, handler))
    app.router.add_route("*", API + "/{rest:.*}", _endpoint(world, "", _not_there))


async def _not_there(call: Call) -> Answer:
    """What the loopback lacks fails the test, rather than letting the bot take a 404 for an answer."""
    raise NotImplementedError(f"the loopback Discord has no /{call.path['rest']} (or not that method)")


def _endpoint(world: World, path: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def endpoint(request: web.Request) -> web.Response:
        try:
            response = await _answer(world, path, handler, request)
        except Refusal as error:
            response = json_response(error.body(), error.status)
        except Exception as error:
            world.bugs.append(error)
            response = json_response({"message": "500: Internal Server Error", "code": 0}, 500)
        world.requests.append(Request(request.method, request.path.removeprefix(API), response.status))
        world.changed()
        return response

    return endpoint


async def _answer(world: World, path: str, handler: Handler, request: web.Request) -> web.Response:
    _check_token(path, request)
    # The body is read in any case, so that a refused upload does not break the connection.
    body, files = await _read(request)
    fault = _fault(world, request)
    if fault is not None:
        return fault
    major = ":".join(request.match_info.get(key, "") for key in ("channel", "guild", "application", "token"))
    rename = (
        request.method == "PATCH" and path == "/channels/{channel}" and ("name" in body or "topic" in body)
    )
    headers, hit = world.rates.take(request.method, path, request.path, major, rename=rename)
    if hit is not None:
        data, more = refusal(hit)
        return json_response(data, 429, headers | more)
    try:
        answer = await handler(Call(world, request.match_info, request.query, body, files))
    except Refusal as error:
        return json_response(error.body(), error.status, headers)
    if answer is None:
        return web.Response(status=204, headers=headers)
    return json_response(answer, headers=headers)


def _check_token(path: str, request: web.Request) -> None:
    token = request.headers.get("Authorization")
    if token != f"Bot {TOKEN}" and not (token is None and path.startswith(_NO_TOKEN)):
        raise Refusal(401, 0, "401: Unauthorized")


def _fault(world: World, request: web.Request) -> web.Response | None:
    for i, fault in enumerate(world.faults):
        if fault.matches in f"{request.method} {request.path}":
            fault.times -= 1
            if not fault.times:
                del world.faults[i]
            return json_response(fault.body, fault.status, fault.headers)
    return None


async def _read(request: web.Request) -> tuple[Any, list[Upload]]:
    kind = request.headers.get("Content-Type", "")
    if kind.startswith("multipart/form-data"):
        return await _read_form(request)
    raw = await request.read()
    if not raw:
        return {}, []
    if kind != "application/json":
        raise Refusal(400, 50035, "Expected \"Content-Type\" header to be one of {'application/json'}.")
    try:
        return json.loads(raw), []
    except ValueError:
        raise Refusal(400, 50109, "The request body contains invalid JSON.") from None


async def _read_form(request: web.Request) -> tuple[Any, list[Upload]]:
    body: Any = {}
    files = []
    form = await request.post()
    for name, value in form.items():
        if name == "payload_json":
            body = json.loads(value.file.read() if isinstance(value, web.FileField) else value)
        elif isinstance(value, web.FileField) and name.startswith("files["):
            index = int(name.removeprefix("files[").rstrip("]"))
            files.append(Upload(index, value.filename, value.file.read()))
            value.file.close()
    return body, files
