"""Run the application in a web server."""

from __future__ import annotations

import gc
import logging
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import uvicorn

from kernelcup.errors import ConfigError
from kernelcup.http.app import create_app
from kernelcup.http.door import Door, Places, door
from kernelcup.http.middleware import quiet_uvicorn
from kernelcup.http.state import Platform

GRACE_S = 5
"""How long pending requests may take when the service stops; streams are cut."""

BACKLOG = 2048
SEND_BUFFER_BYTES = 256 << 10
"""Of an answer, what the system takes at once. It would take megabytes of each, which costs the loop seconds if
many ask and do not read."""

MOST_FILES = 65_536

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
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
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
                http=type(
                    "Door", (kind,), {"count_refusal": count, "places": Places(), "health_places": Places()}
                ),
                proxy_headers=bool(server.trusted_proxies),
                forwarded_allow_ips=list(server.trusted_proxies),
                timeout_graceful_shutdown=GRACE_S,
                lifespan="on",
            )
        )
        steady()
        platform.hub.most_streams = kind.most // 2
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
