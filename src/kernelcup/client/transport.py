"""An HTTP client for a server: it sends requests and turns the server's errors into ours."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from kernelcup import __version__, errors
from kernelcup.errors import InvalidTask, InvalidValue, Problem, RateLimited, ServerUnavailable, UserError
from kernelcup.next_steps import NEXT_STEPS

TIMEOUT_S = 30.0
SILENCE_S = 60.0
"""A stream that is silent for this long is dead: the server sends a sign of life every 15 s."""
API = "/api/v1"
BUSY = (502, 503, 504)
NOT_JSON = object()

Upload = tuple[str, tuple[str, bytes]]
"""A part of a form: its name, and a file's name and content."""


class NotReached(ServerUnavailable):
    """The server does not answer now; the same request may succeed later."""


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


class Client:
    """Sends requests to one server as one user."""

    def __init__(
        self, server: str, token: str | None = None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.server = read_server(server)
        headers = {"User-Agent": f"kernelcup/{__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        # A redirect would send the token to an unknown target.
        self._http = httpx.Client(
            base_url=self.server,
            headers=headers,
            timeout=TIMEOUT_S,
            follow_redirects=False,
            transport=transport,
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str | int | bool] | None = None,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        files: Sequence[Upload] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Send a request and return the parsed JSON of the answer.

        Args:
            method: For example ``GET``.
            path: The path below ``/api/v1``, for example ``/me``.
            json: The body.
            params: The query parameters.
            headers: Further headers.
            form: Fields of a form, instead of ``json``.
            files: Files of a form.
            timeout_s: How long the server may be silent.

        Raises:
            UserError: The server refuses the request; the error has the same class as on the server.
            NotReached: The server does not answer now.
            ServerUnavailable: The answer is not that of a KernelCup server.
        """
        with self._reaching():
            answer = self._http.request(
                method,
                API + path,
                json=json,
                params=dict(params or {}),
                headers=dict(headers or {}),
                data=dict(form) if form is not None else None,
                files=list(files) if files is not None else None,
                timeout=timeout_s,
            )
        body = _json(answer)
        if answer.is_success and body is not NOT_JSON:
            return body
        raise read_error(self.server, answer.status_code, body)

    def stream(self, path: str, *, last_id: int) -> Iterator[StreamEvent]:
        """Yield the events of a stream until the server ends it. Raise like :meth:`request`."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last_id)}
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        with (
            self._reaching(),
            self._http.stream("GET", API + path, headers=headers, timeout=timeout) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise read_error(self.server, answer.status_code, _json(answer))
            yield from _events(answer.iter_lines())

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise NotReached(f"{self.server}: {error or type(error).__name__}") from error
        except httpx.HTTPError as error:
            raise ServerUnavailable(f"{self.server}: {error or type(error).__name__}") from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return NOT_JSON


def _events(lines: Iterator[str]) -> Iterator[StreamEvent]:
    """Parse server-sent events; a comment only shows that the stream is alive."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields['data']}\n{value}" if name == "data" and "data" in fields else value
            continue
        if "data" in fields:
            number, kind = fields.get("id", ""), fields.get("event", "message")
            with suppress(ValueError):
                data = json_text.loads(fields["data"])
                yield StreamEvent(id=int(number) if number.isdecimal() else None, kind=kind, data=data)
        fields = {}


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
        error = InvalidTask(_problems(told.get("problems"), message))
    else:
        error = (kind or InvalidValue)(message)
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
