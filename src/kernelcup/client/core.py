"""The parts that the clients of a server share: addresses, answers, errors, streams, pauses. No input or output."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from urllib.request import getproxies, proxy_bypass

import httpx

from kernelcup import __version__, errors
from kernelcup.errors import (
    DeviceNeeded,
    InvalidTask,
    InvalidValue,
    Problem,
    RateLimited,
    ServerUnavailable,
    UserError,
)
from kernelcup.next_steps import NEXT_STEPS

T = TypeVar("T")

API = "/api/v1"
TIMEOUT_S = 30.0
LONG_S = 600.0
"""How long a server may take for a synchronous action, for example fetching a repository."""
SILENCE_S = 60.0
"""A stream that is silent for this long is dead: the server sends a sign of life every 15 s."""
BUSY = (502, 503, 504)

Params = Mapping[str, str | int | bool]
Upload = tuple[str, tuple[str, bytes]]
"""A part of a form: its name, and a file's name and content."""


class NotReached(ServerUnavailable):
    """The server does not answer now; the same request may succeed later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request to a server."""

    method: str
    path: str
    """Below ``/api/v1``, for example ``/me``."""
    params: Params = field(default_factory=dict)
    json: object = None
    """The body."""
    form: Mapping[str, str] | None = None
    """Fields of a form, instead of JSON."""
    files: Sequence[Upload] = ()
    """Files of a form."""
    timeout_s: float = TIMEOUT_S
    """How long the server may be silent."""

    @property
    def options(self) -> dict[str, Any]:
        """Its options for httpx."""
        body = {"json": self.json, "data": self.form, "files": self.files or None}
        return {**body, "params": self.params, "timeout": self.timeout_s}


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamEvent:
    """A server-sent event."""

    id: int | None
    kind: str
    data: Any


def read_server(text: str) -> str:
    """Return a server's address without a trailing slash. Raise ``InvalidValue`` if it is invalid."""
    try:
        url = httpx.URL(text if "://" in text else f"https://{text}")
        if "://" not in text and url.host in ("localhost", "127.0.0.1", "::1"):
            url = url.copy_with(scheme="http")
    except httpx.InvalidURL:
        raise InvalidValue(f"Server {text!r}: expected an address such as https://cup.example.org.") from None
    plain = url.host and "%" not in url.host and not (url.userinfo or url.query or url.fragment)
    if url.scheme not in ("http", "https") or not plain:
        raise InvalidValue(f"Server {text!r}: expected an address such as https://cup.example.org.")
    return str(url).rstrip("/")


@cache
def trusted(*, reads_environment: bool = True) -> ssl.SSLContext:
    """Return whom connections trust, read once: httpx takes 50 ms to read all certificates for each client.

    Args:
        reads_environment: Whether ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name those to trust.
    """
    return httpx.create_ssl_context(trust_env=reads_environment)


def http_client(kind: Callable[..., T], server: str, agent: str, **more: Any) -> T:
    """Return an httpx client for a server. Raise ``InvalidValue`` if a proxy of the environment cannot be used."""
    headers = {"User-Agent": f"{agent}/{__version__}", "Accept": "application/json"}
    try:
        # A redirect would send the token to an unknown target.
        options = {"timeout": TIMEOUT_S, "follow_redirects": False, "verify": trusted(), **more}
        return kind(base_url=server, headers=headers, **options)
    except (ValueError, httpx.InvalidURL) as error:
        raise InvalidValue(str(error)) from error


def stream_options(last_id: int) -> dict[str, Any]:
    """Return the options of a request for a stream's events after the one with this number."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last_id)}
    return {"headers": headers, "timeout": httpx.Timeout(TIMEOUT_S, read=SILENCE_S)}


def pauses(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield the pauses between attempts, in seconds, without end; each is twice as long as the one before."""
    pause_s = first_s
    while True:
        yield min(pause_s, longest_s)
        pause_s = min(2 * pause_s, longest_s)


def unreached(server: str, error: httpx.HTTPError) -> ServerUnavailable:
    """Return the error for a request without an answer."""
    kind = NotReached if isinstance(error, httpx.TransportError) else ServerUnavailable
    address, proxies = httpx.URL(server), getproxies()
    proxy = None if proxy_bypass(address.host) else proxies.get(address.scheme, proxies.get("all"))
    # Its name and password stay out of messages.
    through = f", through the proxy {proxy.rpartition('@')[2]}" if proxy else ""
    return kind(f"{server}: {str(error) or type(error).__name__}{through}")


def read_answer(server: str, answer: httpx.Response) -> Any:
    """Return the parsed JSON of an answer, or its zip as JSON of an operation would have it.

    Raises:
        UserError: The server refuses the request; the error has the same class as on the server.
        NotReached: The server does not answer now.
        ServerUnavailable: The answer is not that of a KernelCup server.
    """
    if answer.is_success and answer.headers.get("Content-Type") == "application/zip":
        return {"name": "", "parts": [answer.content]}
    body = _json(answer)
    if answer.is_success and body is not _NOT_JSON:
        return body
    raise read_error(server, answer.status_code, body)


_NOT_JSON = object()


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return _NOT_JSON


class EventLines:
    """Puts the lines of a stream together to server-sent events."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def take(self, line: str) -> StreamEvent | None:
        """Return the event that this line ends, if it has data. Raise ``ValueError`` if that is not JSON."""
        fields = self._fields
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields['data']}\n{value}" if name == "data" and "data" in fields else value
            return None
        self._fields = {}
        if "data" not in fields:
            return None  # a comment only shows that the stream is alive
        number = fields.get("id", "")
        return StreamEvent(
            id=int(number) if number.isdecimal() else None,
            kind=fields.get("event", "message"),
            data=json.loads(fields["data"]),
        )


def read_error(server: str, status: int, body: Any) -> errors.KernelCupError:
    """Return the error that the server reports."""
    told = body.get("error") if isinstance(body, dict) else None
    if not isinstance(told, dict) or not isinstance(told.get("code"), str):
        kind_of = NotReached if status in BUSY else ServerUnavailable
        return kind_of(f"{server} answered {status}, and not as a KernelCup server does")
    code, message = told["code"], str(told.get("message", ""))
    kind = next((each for each in _kinds(UserError) if each.code == code), None)
    error: errors.KernelCupError
    if status >= 500 and kind is None:
        error = (NotReached if status in BUSY else ServerUnavailable)(f"{server}: {message}")
    elif kind is RateLimited:
        error = RateLimited(message, retry_after_s=_positive(told.get("retry_after_s")))
    elif kind is InvalidTask:
        error = InvalidTask(_problems(told.get("problems"), message), message)
    else:
        error = (kind or InvalidValue)(message)
    if isinstance(error, DeviceNeeded):
        error.leaderboard = str(told.get("leaderboard") or "")
        error.devices = tuple(map(str, told.get("devices") or ()))
    for note in told.get("next") or []:
        # The general next step for a code is for other clients: commands have hints of their own.
        if note != NEXT_STEPS.get(code):
            error.add_note(str(note))
    return error


def _kinds(kind: type[UserError]) -> Iterator[type[UserError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _kinds(child)


def _positive(value: object) -> int:
    return max(1, int(value)) if isinstance(value, (int, float)) else 1


def _problems(told: object, message: str) -> list[Problem]:
    found = []
    for each in told if isinstance(told, list) else []:
        if isinstance(each, dict):
            file, key, text = (str(each.get(name, "")) for name in ("file", "key", "text"))
            line, column = (_positive(each.get(name)) for name in ("line", "column"))
            found.append(Problem(file=file, line=line, column=column, key=key, text=text))
    return found or [Problem(file="task", text=message)]
