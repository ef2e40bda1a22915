"""An HTTP client for a server: it sends requests and turns the server's errors into ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import httpx

from kernelcup.client import core
from kernelcup.client.core import TIMEOUT_S, Params, Request, StreamEvent


class Client:
    """Sends requests to one server as one user."""

    def __init__(
        self, server: str, token: str | None = None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.server = core.read_server(server)
        self._http = core.http_client(httpx.Client, self.server, "kernelcup", transport=transport)
        if token is not None:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Send a request without a form. Return and raise like :meth:`send`."""
        asked = Request(method=method, path=path, json=json, params=params or {}, timeout_s=timeout_s)
        return self.send(asked, headers)

    def send(self, asked: Request, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the parsed JSON of the answer.

        Raises:
            UserError: The server refuses the request; the error has the same class as on the server.
            NotReached: The server does not answer now.
            ServerUnavailable: The answer is not that of a KernelCup server.
        """
        with self._reaching():
            answer = self._http.request(asked.method, core.API + asked.path, headers=headers, **asked.options)
        return core.read_answer(self.server, answer)

    def download(self, path: str, *, timeout_s: float = TIMEOUT_S) -> bytes:
        """Return the content of a file. Raise like :meth:`request`."""
        with self._reaching():
            answer = self._http.get(core.API + path, timeout=timeout_s)
        if not answer.is_success:
            core.read_answer(self.server, answer)
        return answer.content

    def put(self, url: str, content: bytes, *, timeout_s: float = TIMEOUT_S) -> bool:
        """Put a file to an address that the server has signed; return False if a host elsewhere did not take it.

        Raise like :meth:`request`.
        """
        if not url.startswith("/"):
            with suppress(httpx.HTTPError):  # without our token, which is not for others
                return httpx.put(url, content=content, timeout=timeout_s).is_success
            return False
        with self._reaching():
            answer = self._http.put(url, content=content, timeout=timeout_s)
        if not answer.is_success:
            core.read_answer(self.server, answer)
        return True

    def stream(self, path: str, *, last_id: int) -> Iterator[StreamEvent]:
        """Yield the events of a stream until the server ends it. Raise like :meth:`request`."""
        lines = core.EventLines()
        with (
            self._reaching(),
            self._http.stream("GET", core.API + path, **core.stream_options(last_id)) as answer,
        ):
            if not answer.is_success:
                answer.read()
                core.read_answer(self.server, answer)
            for line in answer.iter_lines():
                event = None
                with suppress(ValueError):
                    event = lines.take(line)
                if event is not None:
                    yield event

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise core.unreached(self.server, error) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
