"""The platform's HTTP API for the bot: on behalf of a person, as itself, or anonymously."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx

from kernelcup import __version__
from kernelcup.client.transport import API, NotReached, read_error, read_server
from kernelcup.errors import DeviceNeeded, KernelCupError, ServerUnavailable

ACT_FOR = "X-KernelCup-Act-For"
PATIENCE_S = 20.0
"""How long a request is retried while the server does not answer."""
TIMEOUT_S = 30.0
SILENCE_S = 45.0
"""A stream that is silent for this long is dead: a live one sends a sign of life every 15 s."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class Person:
    """A Discord account that the bot vouches for."""

    id: int
    name: str

    @property
    def header(self) -> str:
        """Return the header that names the person the bot acts for."""
        return f"discord:{self.id}:{quote(self.name)}"


class _Service:
    """The bot itself, with the rights of its token."""


SERVICE: Final = _Service()
Who = Person | _Service | None
"""The requester: a person, the bot itself, or None for an anonymous request, which sees public data."""

Files = Sequence[tuple[str, tuple[str, bytes]]]


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
        self.server = read_server(server)
        self._token = token
        self._first_pause_s = first_pause_s
        self._http = httpx.AsyncClient(
            base_url=self.server,
            headers={"User-Agent": f"kernelcup-bot/{__version__}", "Accept": "application/json"},
            timeout=TIMEOUT_S,
            follow_redirects=False,
            transport=transport,
            limits=httpx.Limits(max_connections=None),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(
        self, path: str, who: Who, *, patience_s: float = PATIENCE_S, **params: str | int | None
    ) -> Any:
        """Return the resource at a path. Raises like :meth:`send`."""
        given = {name: value for name, value in params.items() if value is not None}
        return await self.send("GET", path, who, params=given, patience_s=patience_s)

    async def send(
        self,
        method: str,
        path: str,
        who: Who,
        *,
        json: object = None,
        params: Mapping[str, str | int | bool] | None = None,
        data: Mapping[str, str] | None = None,
        files: Files | None = None,
        key: str | None = None,
        patience_s: float = PATIENCE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Send a request and return the server's answer, decoded from JSON.

        Args:
            method: For example ``GET``.
            path: Below ``/api/v1``; use :func:`at` for parts supplied by people.
            who: The requester.
            json: The body.
            params: Parameters of the query string.
            data: Fields of a form.
            files: Files of a form.
            key: Idempotency key; makes the request safe to repeat.
            patience_s: How long to retry. Only requests that are safe to repeat are retried.
            timeout_s: Time limit of one try.

        Raises:
            UserError: The server refuses.
            ServerUnavailable: It does not answer, or not like a KernelCup server.
        """
        headers = self._headers(who)
        if key is not None:
            headers["Idempotency-Key"] = key
        request = self._http.build_request(
            method,
            API + path,
            json=json,
            params=dict(params or {}),
            data=data,
            files=files,
            headers=headers,
            timeout=timeout_s,
        )
        repeatable = method in ("GET", "PUT", "DELETE") or key is not None
        return _body(await self._patiently(request, patience_s if repeatable else 0))

    async def download(self, path: str, who: Who) -> bytes:
        """Return a file. Raises like :meth:`send`."""
        request = self._http.build_request("GET", API + path, headers=self._headers(who))
        return (await self._patiently(request, PATIENCE_S)).content

    async def follow(self, submission: int, who: Who, *, after: int = 0) -> AsyncIterator[Happening]:
        """Yield the events of a submission, each once, until it is done.

        A broken stream is resumed where it broke, however long that takes.

        Raises:
            UserError: The server refuses, for example because the submission was deleted.
        """
        last, pause_s = after, self._first_pause_s
        while True:
            try:
                async for each in self._stream(submission, who, last):
                    last, pause_s = max(last, each.id or 0), self._first_pause_s
                    yield each
                    if each.kind == "done":
                        return
            except NotReached:
                pass
            # It ended without `done`: the server stopped, or there are no events beyond `after`.
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
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
        headers = self._headers(who) | {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        address = f"{API}/submissions/{submission}/events"
        try:
            async with self._http.stream("GET", address, headers=headers, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _refusal(self.server, answer)
                async for fields in _events(answer):
                    yield _happening(fields)
        except httpx.HTTPError as error:
            raise self._unreached(error) from error

    async def _patiently(self, request: httpx.Request, patience_s: float) -> httpx.Response:
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + patience_s, self._first_pause_s
        while True:
            try:
                return await self._once(request)
            except NotReached:
                if loop.time() + pause_s > until:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _once(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = await self._http.send(request)
        except httpx.HTTPError as error:
            raise self._unreached(error) from error
        if answer.is_success:
            return answer
        raise _refusal(self.server, answer)

    def _headers(self, who: Who) -> dict[str, str]:
        if who is None:
            return {}
        headers = {"Authorization": f"Bearer {self._token}", "X-KernelCup-Client": "bot"}
        if isinstance(who, Person):
            headers[ACT_FOR] = who.header
        return headers

    def _unreached(self, error: httpx.HTTPError) -> NotReached:
        return NotReached(f"{self.server}: {error or type(error).__name__}")


def at(*parts: object) -> str:
    """Return a path below ``/api/v1`` from untrusted parts."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise ServerUnavailable("the answer is not JSON") from None


def _refusal(server: str, answer: httpx.Response) -> KernelCupError:
    try:
        body = answer.json()
    except ValueError:
        body = None
    error = read_error(server, answer.status_code, body)
    if isinstance(error, DeviceNeeded):
        error.leaderboard = str(body["error"].get("leaderboard") or "")
        error.devices = tuple(map(str, body["error"].get("devices") or ()))
    return error


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        else:
            if "data" in fields:
                yield fields
            fields = {}


def _happening(fields: Mapping[str, str]) -> Happening:
    try:
        body = json_text.loads(fields["data"])
        kind = fields.get("event", "")
        if kind == "waiting":
            return Happening(id=None, kind=kind, job=None, data=body["jobs"])
        return Happening(id=int(fields["id"]), kind=kind, job=body["job"], data=body["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise ServerUnavailable(f"the stream has an event that cannot be read: {error!r}") from None
