"""A server from the outside: requests, and its errors as the ones that we know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import httpx

from kernelcup import __version__, errors
from kernelcup.errors import InvalidTask, InvalidValue, Problem, RateLimited, ServerUnavailable, UserError

TIMEOUT_S = 30.0
API = "/api/v1"


def read_server(text: str) -> str:
    """Return a server's address without a slash at its end. Raise ``InvalidValue`` if it is none."""
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
    """Speaks with one server as one user."""

    def __init__(
        self, server: str, token: str | None = None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.server = read_server(server)
        headers = {"User-Agent": f"kernelcup/{__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        # A redirect would carry the token to wherever it leads.
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
    ) -> Any:
        """Return what the server answers, from JSON.

        Args:
            method: Such as ``GET``.
            path: Below ``/api/v1``, such as ``/me``.
            json: The body.
            params: What stands behind the question mark.
            headers: Further headers.

        Raises:
            UserError: The server refuses; the error is of the same kind as there.
            ServerUnavailable: It cannot be reached, or answers with something else.
        """
        try:
            answer = self._http.request(
                method, API + path, json=json, params=dict(params or {}), headers=dict(headers or {})
            )
        except httpx.HTTPError as error:
            raise ServerUnavailable(f"{self.server}: {error or type(error).__name__}") from error
        body = _json(answer)
        if answer.is_success and body is not None:
            return body
        raise _error(self.server, answer.status_code, body)

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
        return None


def _error(server: str, status: int, body: Any) -> errors.KernelCupError:
    """Return the error that the server tells of."""
    told = body.get("error") if isinstance(body, dict) else None
    if not isinstance(told, dict) or not isinstance(told.get("code"), str):
        return ServerUnavailable(f"{server} answered {status}, and not as a KernelCup server does")
    code, message = told["code"], str(told.get("message", ""))
    kind = next((each for each in _kinds(UserError) if each.code == code), None)
    error: errors.KernelCupError
    if status >= 500 and kind is None:
        error = ServerUnavailable(f"{server}: {message}")
    elif kind is RateLimited:
        error = RateLimited(message, retry_after_s=_positive(told.get("retry_after_s")))
    elif kind is InvalidTask:
        error = InvalidTask(_problems(told.get("problems"), message))
    else:
        error = (kind or InvalidValue)(message)
    for note in told.get("next") or []:
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
