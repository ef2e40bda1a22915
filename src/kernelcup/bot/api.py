"""The platform's HTTP API for the bot: on behalf of a person, as itself, or anonymously."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx

from kernelcup.client import core
from kernelcup.client.core import NotReached, Request
from kernelcup.client.requests import asking
from kernelcup.errors import ServerUnavailable

ACT_FOR = "X-KernelCup-Act-For"
PATIENCE_S = 20.0
"""How long a request is retried while the server does not answer."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0

T = TypeVar("T")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Person:
    """A Discord account that the bot vouches for."""

    id: int
    name: str
    display_name: str = ""

    @property
    def header(self) -> str:
        """Return the header that names the person the bot acts for."""
        shown = f":{quote(self.display_name, safe='')}" if self.display_name else ""
        return f"discord:{self.id}:{quote(self.name)}{shown}"


class _Service:
    """The bot itself, with the rights of its token."""


SERVICE: Final = _Service()
Who = Person | _Service | None
"""The requester: a person, the bot itself, or None for an anonymous request, which sees public data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Happening:
    """An event of a submission; ``waiting`` events have no number."""

    id: int | None
    kind: str
    job: int | None
    data: Mapping[str, Any]


class Api:
    """Client of the platform. Refusals are raised as the same error classes as on the server.

    Args:
        server: The platform's address.
        token: The service token.
        transport: For tests.
        first_pause_s: Pause before the second try; each further pause is twice as long.
    """

    def __init__(
        self,
        server: str,
        token: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self.server = core.read_server(server)
        self._token = token
        self._first_pause_s = first_pause_s
        limits = httpx.Limits(max_connections=None)
        self._http = core.http_client(
            httpx.AsyncClient, self.server, "kernelcup-bot", transport=transport, limits=limits
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(
        self, call: Callable[..., T], who: Who, /, *, patience_s: float = PATIENCE_S, **values: Any
    ) -> T:
        """Run an operation with values for its parameters, and return its answer.

        Args:
            call: The operation.
            who: The requester.
            patience_s: How long to try again while the server does not answer, if a request is safe to repeat.
            values: By the operation's parameters; an upload is an :class:`Attached`.

        Raises:
            UserError: The server refuses.
            ServerUnavailable: It does not answer, or not like a KernelCup server.
        """
        steps, body = asking(call, self.server, values), None
        while True:
            try:
                request = steps.send(body)
            except StopIteration as done:
                answer: T = done.value
                return answer
            body = await self._send(request, who, patience_s=patience_s)

    async def get(
        self, path: str, who: Who, *, patience_s: float = PATIENCE_S, **params: str | int | None
    ) -> Any:
        """Return the resource at a path. Raises like :meth:`call`."""
        given = {name: value for name, value in params.items() if value is not None}
        return await self._send(Request(method="GET", path=path, params=given), who, patience_s=patience_s)

    async def post(
        self,
        path: str,
        who: Who,
        *,
        json: Json | None = None,
        key: str | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Any:
        """Post to a path that belongs to no operation; the key makes that safe to repeat. Raises like :meth:`call`."""
        request = Request(method="POST", path=path, json=json)
        return await self._send(request, who, key=key, patience_s=patience_s)

    async def _send(self, asked: Request, who: Who, *, key: str | None = None, patience_s: float) -> Any:
        """Send a request, again for ``patience_s`` if that is safe, and return the answer, decoded from JSON."""
        headers = self._headers(who) | ({} if key is None else {"Idempotency-Key": key})
        path = core.API + asked.path
        request = self._http.build_request(asked.method, path, headers=headers, **asked.options)
        repeatable = asked.method in ("GET", "PUT", "DELETE") or key is not None
        return core.read_answer(self.server, await self._patiently(request, patience_s if repeatable else 0))

    async def download(self, path: str, who: Who) -> bytes:
        """Return a file. Raises like :meth:`call`."""
        request = self._http.build_request("GET", core.API + path, headers=self._headers(who))
        return (await self._patiently(request, PATIENCE_S)).content

    async def follow(self, submission: int, who: Who, *, after: int = 0) -> AsyncIterator[Happening]:
        """Yield the events of a submission, each once, until it is done.

        A broken stream is resumed where it broke, however long that takes.

        Raises:
            UserError: The server refuses, for example because the submission was deleted.
        """
        last, pauses = after, self._pauses()
        while True:
            try:
                async for each in self._stream(submission, who, last):
                    last, pauses = max(last, each.id or 0), self._pauses()
                    yield each
                    if each.kind == "done":
                        return
            except NotReached:
                pass
            # It ended without `done`: the server stopped, or there are no events beyond `after`.
            await asyncio.sleep(next(pauses))
            if (await self.get(f"/submissions/{submission}", who, patience_s=float("inf")))["ended"]:
                async for each in self._rest(submission, who, last):
                    yield each
                return

    async def _rest(self, submission: int, who: Who, after: int) -> AsyncIterator[Happening]:
        """Yield the events of an ended submission after a given event."""
        last: int | None = after
        while last is not None:
            page = await self.get(f"/submissions/{submission}/history", who, after=last)
            for each in page["items"]:
                yield Happening(id=each["id"], kind=each["kind"], job=each["job"], data=each["data"])
            last = page["next"]

    async def _stream(self, submission: int, who: Who, after: int) -> AsyncIterator[Happening]:
        options, lines = core.stream_options(after), core.EventLines()
        options["headers"] |= self._headers(who)
        address = f"{core.API}/submissions/{submission}/events"
        try:
            async with self._http.stream("GET", address, **options) as answer:
                if not answer.is_success:
                    await answer.aread()
                    core.read_answer(self.server, answer)
                async for line in answer.aiter_lines():
                    event = _happening(lines, line)
                    if event is not None:
                        yield event
        except httpx.HTTPError as error:
            raise core.unreached(self.server, error) from error

    async def _patiently(self, request: httpx.Request, patience_s: float) -> httpx.Response:
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        for pause_s in self._pauses():
            try:
                return await self._once(request)
            except NotReached:
                if loop.time() + pause_s > until:
                    raise
            await asyncio.sleep(pause_s)
        raise AssertionError("pauses end")

    def _pauses(self) -> Iterator[float]:
        return core.pauses(self._first_pause_s, LONGEST_PAUSE_S)

    async def _once(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = await self._http.send(request)
        except httpx.HTTPError as error:
            raise core.unreached(self.server, error) from error
        if not answer.is_success:
            core.read_answer(self.server, answer)
        return answer

    def _headers(self, who: Who) -> dict[str, str]:
        if who is None:
            return {}
        headers = {"Authorization": f"Bearer {self._token}", "X-KernelCup-Client": "bot"}
        if isinstance(who, Person):
            headers[ACT_FOR] = who.header
        return headers


def _happening(lines: core.EventLines, line: str) -> Happening | None:
    try:
        event = lines.take(line)
        if event is None:
            return None
        if event.kind == "waiting":
            return Happening(id=None, kind=event.kind, job=None, data=event.data["jobs"])
        if event.id is None:
            raise ValueError("no number")
        return Happening(id=event.id, kind=event.kind, job=event.data["job"], data=event.data["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise ServerUnavailable(f"the stream has an event that cannot be read: {error!r}") from None
