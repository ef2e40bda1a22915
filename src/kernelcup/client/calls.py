"""Calls of a server's API: requests whose answers are read, and lists page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from kernelcup.client.core import TIMEOUT_S
from kernelcup.client.transport import Client
from kernelcup.errors import ServerUnavailable
from kernelcup_harness.protocol import ProtocolError

PAGE = 200
"""The largest page that the server returns."""

T = TypeVar("T")


class Calls:
    """The API of one server, used as one user; an answer that cannot be read is ``ServerUnavailable``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def server(self) -> str:
        """Return the server's address."""
        return self._client.server

    def ask(
        self,
        read: Callable[[Any], T],
        method: str,
        path: str,
        *,
        json: Mapping[str, object] | None = None,
        params: Mapping[str, str | int | bool] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> T:
        """Send a request that has no method here, and return the answer as parsed by ``read``."""
        with self._reading():
            return read(
                self._client.request(
                    method,
                    path,
                    json=None if json is None else dict(json),
                    params=params,
                    timeout_s=timeout_s,
                )
            )

    def tell(self, method: str, path: str, *, json: Mapping[str, object] | None = None) -> None:
        """Send a request whose answer has no content of interest."""
        self.ask(lambda _: None, method, path, json=json)

    def pages(
        self,
        read: Callable[[Any], T],
        path: str,
        params: Mapping[str, str],
        *,
        limit: int | None,
        after: int | None = None,
    ) -> list[T]:
        """Return all items of a paged list."""
        with self._reading():
            return [read(each) for each in self._pages(path, params, limit, after)]

    def _text(self, path: str) -> str:
        return str(self._client.request("GET", path)["text"])

    def _pages(
        self, path: str, params: Mapping[str, str], limit: int | None, after: int | None = None
    ) -> Iterator[Any]:
        left = limit
        while left is None or left > 0:
            wanted: dict[str, str | int | bool] = {
                **params,
                "limit": PAGE if left is None else min(left, PAGE),
            }
            page = self._client.request(
                "GET", path, params=wanted if after is None else wanted | {"after": after}
            )
            yield from page["items"]
            after = page["next"]
            if after is None:
                return
            left = None if left is None else left - len(page["items"])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, ProtocolError) as error:
            text = f"{self.server} answers in a form that this version does not know ({error}); is it a newer one?"
            raise ServerUnavailable(text) from error
