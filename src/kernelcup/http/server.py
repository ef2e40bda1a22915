"""Run the application in a web server."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kernelcup.errors import ConfigError
from kernelcup.http.app import create_app
from kernelcup.http.middleware import quiet_uvicorn
from kernelcup.http.state import Platform

GRACE_S = 5
"""How long pending requests may take when the service stops; streams are cut."""

BACKLOG = 2048

MOST_CONNECTIONS = 2048
"""Connections of one process; fewer if it may open few files."""
HEALTH_CONNECTIONS = 32
"""Beyond these, for health checks only."""
HEALTH_OF_ONE = 4
"""Of these, from one address."""
HEALTH_HEAD_S = 1.0
"""How long a client may take that is let in for a health check only."""
HEALTH_PATHS = (b"/livez", b"/healthz", b"/readyz")
HEAD_S = 10.0
"""How long a client may take from its connection, or its first byte, to the end of the request's head."""
MOST_FILES = 65_536

REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 26\r\n\r\nToo many connections now.\r\n"
)

logger = logging.getLogger(__name__)


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Open a socket to serve.

    Args:
        shared: Several sockets listen on the port, one for each process, and the system spreads the
            connections over them. On one socket the process that is quickest takes them all.

    Raises:
        ConfigError: The socket cannot be opened.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, proto)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        raise ConfigError(f"server: cannot listen on {host}:{port}: {error.strerror or error}") from error
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the address under which this machine reaches a socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def steady() -> None:
    """Reduce pauses that would delay requests.

    What was imported stays, so the garbage collector need not look at it again and again, which takes
    a tenth of a second each time. And the thread that reads the sockets gets its turn soon.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    sys.setswitchinterval(0.001)


def raise_file_limit() -> int:
    """Raise this process's limit on open files, within reason, and return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


class Door(HttpToolsProtocol):
    """A connection; their number is limited, and each must send its request's head in time."""

    most = MOST_CONNECTIONS
    most_of_one = MOST_CONNECTIONS // 2
    """From one address, unless it is a proxy's."""
    health = HEALTH_CONNECTIONS
    head_s = HEAD_S
    health_head_s = HEALTH_HEAD_S
    count_refusal: Callable[[], None] | None = None
    is_for_health = False
    _is_refused = False
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, refuse it at once, or take it for a health check only."""
        super().connection_made(transport)
        if self._is_one_too_many():
            self.is_for_health = True
            if self._is_one_health_check_too_many():
                self._turn_away()
                return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Read data; after a request, the next one's head must arrive in time."""
        if self._is_refused:
            return
        super().data_received(data)
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._head is None and self.timeout_keep_alive_task is None and not self._is_refused:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Begin with a request."""
        self._stop_waiting()
        if self.is_for_health and self.url.partition(b"?")[0] not in HEALTH_PATHS:
            self._turn_away()
            return
        super().on_headers_complete()
        if self.is_for_health:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a piece of a request's body."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        if not self._is_refused:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_one_too_many(self) -> bool:
        if len(self.connections) <= min(self.most, self.most_of_one):
            return False
        others = [each for each in self._doors() if not each.is_for_health]
        if len(others) > self.most:
            return True
        return len(others) > self.most_of_one and len(self._of_same_address(others)) > self.most_of_one

    def _is_one_health_check_too_many(self) -> bool:
        checks = [each for each in self._doors() if each.is_for_health]
        return len(checks) > self.health or len(self._of_same_address(checks)) > HEALTH_OF_ONE

    def _doors(self) -> list[Door]:
        return [each for each in self.connections if isinstance(each, Door)]

    def _of_same_address(self, doors: list[Door]) -> list[Door]:
        return [each for each in doors if each.client and self.client and each.client[0] == self.client[0]]

    def _await_head(self) -> None:
        seconds = self.health_head_s if self.is_for_health else self.head_s
        self._head = self.loop.call_later(seconds, self._is_late)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _is_late(self) -> None:
        self._head = None
        if self.is_for_health:
            self._turn_away()
        elif not self.transport.is_closing():
            self.transport.close()

    def _turn_away(self) -> None:
        self._is_refused = True
        if self.count_refusal is not None:
            self.count_refusal()
        if not self.transport.is_closing():
            self.transport.write(REFUSAL)
            self.transport.close()


def door(files: int, *, behind_proxy: bool) -> type[Door]:
    """Return the connection class for a process with a given limit on open files.

    Half of the files are for the database, jobs and the log.
    """
    most = min(MOST_CONNECTIONS, max(files // 2, 1))
    return type("Door", (Door,), {"most": most, "most_of_one": most if behind_proxy else max(most // 2, 1)})


class WebServer:
    """Serves HTTP from a thread of this process."""

    def __init__(
        self, platform: Platform, sock: socket.socket, *, connections: type[Door] | None = None
    ) -> None:
        server = platform.config.server
        quiet_uvicorn()
        self._sock = sock
        self.app = app = create_app(platform)
        kind = connections or door(raise_file_limit(), behind_proxy=bool(server.trusted_proxies))
        count = staticmethod(partial(app.state.metrics.unavailable, "connections"))
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                http=type("Door", (kind,), {"count_refusal": count}),
                proxy_headers=bool(server.trusted_proxies),
                forwarded_allow_ips=list(server.trusted_proxies),
                timeout_graceful_shutdown=GRACE_S,
                lifespan="on",
            )
        )
        steady()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the server runs."""
        return self._thread.is_alive()

    def wait_until_ready(self) -> None:
        """Return once requests are answered."""
        while not self._server.started and self.is_alive:
            time.sleep(0.01)

    def stop(self) -> None:
        """Finish pending requests, then return."""
        self.app.state.platform.asking.close()
        self._server.should_exit = True
        self._thread.join(GRACE_S + 5)

    def _run(self) -> None:
        self._server.run(sockets=[self._sock])


@dataclass(kw_only=True)
class Workers:
    """Processes that serve HTTP, each on its own socket; a process that dies is started again.

    The sockets stay open here, so that connections wait for the new process.
    """

    command: Sequence[str]
    """``{fd}`` in it stands for the socket's number."""
    socks: Sequence[socket.socket]
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Start them all."""
        self._children = [self._spawn(sock) for sock in self.socks]

    def look(self) -> None:
        """Restart processes that have died."""
        for number, child in enumerate(self._children):
            if child.poll() is not None:
                logger.error("an HTTP process ended with code %s and is started again", child.returncode)
                self._children[number] = self._spawn(self.socks[number])

    def stop(self) -> None:
        """End them, and wait until they have."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(GRACE_S + 10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _spawn(self, sock: socket.socket) -> subprocess.Popen[bytes]:
        fd = sock.fileno()
        command = [part.format(fd=fd) if part == "{fd}" else part for part in self.command]
        return subprocess.Popen([sys.executable, "-m", "kernelcup", *command], pass_fds=[fd])
