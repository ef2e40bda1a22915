"""Clients of an application in this process that hand over each request at once; what is answered is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import anyio
import httpx2
import pytest
from starlette import testclient

STREAMS = "kernelcup.tests.streams"


def answer_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let Starlette's client cross over to the application's thread once for each request.

    Its own way does so eight times, which is more than half of what a small request takes. Where a test
    reads an answer while it comes, it goes its own way.
    """
    send = testclient.TestClient.send
    in_parts = testclient._TestClientTransport.handle_request

    def send_marked(
        self: testclient.TestClient, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        request.extensions = {**request.extensions, STREAMS: stream}
        return send(self, request, stream=stream, **options)

    def handle_request(self: testclient._TestClientTransport, request: httpx2.Request) -> httpx2.Response:
        if request.extensions.get(STREAMS, True) or request.url.scheme not in ("http", "https"):
            return in_parts(self, request)
        exchange = Exchange(scope_of(self, request), request.read())
        with self.portal_factory() as portal:
            portal.call(exchange.run, self.app, self.raise_server_exceptions)
        return exchange.response(request)

    patch.setattr(testclient.TestClient, "send", send_marked)
    patch.setattr(testclient._TestClientTransport, "handle_request", handle_request)


def scope_of(transport: testclient._TestClientTransport, request: httpx2.Request) -> dict[str, Any]:
    """Return what a server tells an application of a request."""
    url = request.url
    return {
        "type": "http",
        "http_version": "1.1",
        "method": request.method,
        "path": unquote(url.path),
        "raw_path": url.raw_path.split(b"?", 1)[0],
        "root_path": transport.root_path,
        "scheme": url.scheme,
        "query_string": url.query,
        "headers": [(key.lower().encode(), value.encode()) for key, value in request.headers.multi_items()],
        "client": transport.client,
        "server": [url.raw_host.decode("ascii"), url.port or {"http": 80, "https": 443}[url.scheme]],
        "state": transport.app_state.copy(),
    }


class Exchange:
    """One request and its answer."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self._scope = scope
        self._body: bytes | None = body
        self._parts: list[bytes] = []
        self._start: dict[str, Any] | None = None
        self._is_complete = False
        self._changed = anyio.Event()

    async def run(self, app: Callable[..., Any], raises: bool) -> None:
        """Have the application answer. Its errors are raised if wanted."""
        try:
            await app(self._scope, self._receive, self._send)
        except Exception:
            if raises:
                raise
        assert self._start is not None or not raises, "the application did not answer"

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body}
        await self._changed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert self._start is None, "an answer begins once"
            self._start = message
            return
        assert message["type"] == "http.response.body", message["type"]
        assert self._start is not None, "an answer has a head before its body"
        assert not self._is_complete, "nothing comes after the end of an answer"
        self._parts.append(bytes(message.get("body", b"")))
        if not message.get("more_body", False):
            self._is_complete = True
            self._changed.set()

    def response(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer; one that never began is a failure of the server."""
        start = self._start or {"status": 500}
        body = b"" if request.method == "HEAD" else b"".join(self._parts)
        return httpx2.Response(
            start["status"],
            headers=[(key.decode(), value.decode()) for key, value in start.get("headers", [])],
            stream=httpx2.ByteStream(body),
            request=request,
        )
