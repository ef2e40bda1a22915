"""Calls of a server's API: operations, requests whose answers are read, and lists page by page."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from kernelcup.client.requests import Params, Request, asking, asking_pages, reading
from kernelcup.client.transport import Client

T = TypeVar("T")


class Calls:
    """The API of one server, used as one user; an answer that cannot be read is ``ServerUnavailable``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def server(self) -> str:
        """Return the server's address."""
        return self._client.server

    def call(self, call: Callable[..., T], **values: Any) -> T:
        """Run an operation with values for its parameters, and return its answer."""
        return self._answer(asking(call, self.server, values))

    def ask(self, read: Callable[[Any], T], path: str, params: Params | None = None) -> T:
        """Return what is found at a path that has no method here, as parsed by ``read``."""
        with self._reading():
            return read(self._client.request("GET", path, params=params))

    def _pages(self, path: str, params: Params, limit: int | None) -> list[Any]:
        return self._answer(asking_pages(path, params, limit=limit))

    def _answer(self, steps: Generator[Request, Any, T]) -> T:
        """Send the requests, and return what follows from their answers."""
        body = None
        while True:
            try:
                request = steps.send(body)
            except StopIteration as done:
                answer: T = done.value
                return answer
            body = self._send(request)

    def _send(self, request: Request) -> Any:
        return self._client.request(
            request.method,
            request.path,
            json=request.json,
            params=request.params,
            form=request.form,
            files=request.files or None,
            timeout_s=request.timeout_s,
        )

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.server)
