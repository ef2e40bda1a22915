"""Attackers without an account, on two addresses: the others go on, and the log stays short."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from builders import make_board
from kernelcup.http import capacity
from kernelcup.http.capacity import Room
from kernelcup.http.door import Door
from kernelcup.http.pages.assets import assets
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.http.state import Platform

ATTACKER, OTHER = "127.0.0.2", "127.0.0.3"
LARGE = "/static/any/swagger/swagger-ui-bundle.js"
BEGUN = b"GET /livez HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def serve(platform: Platform) -> Iterator[Callable[..., str]]:
    """Return what starts a web server with limits of its own and returns its address."""
    with ExitStack() as running:

        def start(**limits: Any) -> str:
            sock = running.enter_context(listen("127.0.0.1", 0))
            server = WebServer(platform, sock, connections=type("Door", (Door,), limits))
            running.callback(server.stop)
            server.wait_until_ready()
            return url_of(sock)

        yield start


def connect(
    url: str, sent: bytes = b"", *, address: str = ATTACKER, buffer: int | None = None
) -> socket.socket:
    """Open a connection from an address and send something."""
    host, port = url.removeprefix("http://").split(":")
    sock = socket.socket()
    if buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(60)
    sock.bind((address, 0))
    sock.connect((host, int(port)))
    sock.sendall(sent)
    return sock


def ask(path: str, more: str = "") -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def rest(sock: socket.socket) -> bytes:
    """Return what comes until the connection ends."""
    pieces = []
    try:
        while piece := sock.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def is_served(url: str, path: str = "/livez") -> bool:
    """Return whether another one is."""
    transport = httpx.HTTPTransport(local_address=OTHER)
    with httpx.Client(transport=transport, timeout=60) as client:
        answer = client.get(url + path)
    return answer.status_code == 200


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"X: " + b"a" * 65536, id="a header without an end"),
        pytest.param(b"".join(b"X-%d: y\r\n" % each for each in range(101)) + b"\r\n", id="many headers"),
        pytest.param(b"".join(b"X: %d\r\n" % (1 << 8000) for _ in range(30)) + b"\r\n", id="large headers"),
    ],
)
def test_a_head_too_large_is_refused(serve, more: bytes) -> None:
    url = serve()
    with connect(url, BEGUN + more) as sock:
        assert rest(sock).startswith(b"HTTP/1.1 431 ")
    assert is_served(url)


def test_an_address_too_long_is_refused(serve) -> None:
    with connect(serve(), b"GET /livez?" + b"a" * 65536 + b" HTTP/1.1\r\nHost: x\r\n\r\n") as sock:
        assert rest(sock).startswith(b"HTTP/1.1 431 ")


def test_headers_behind_a_body_are_bounded_too(serve) -> None:
    head = b"POST /api/v1/auth/device HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(serve(), head + b"1\r\nx\r\n0\r\nX: ") as sock:
        sock.settimeout(5)  # the time for a whole body is 10 s
        with pytest.raises(ConnectionError):
            sock.sendall(b"a" * (64 << 20))


def test_a_head_as_large_as_allowed_is_served(serve) -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (each, b"y" * 600) for each in range(90))
    with connect(serve(), BEGUN + headers + b"Connection: close\r\n\r\n") as sock:
        assert rest(sock).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_is_not_read_ends(serve, caplog) -> None:
    url = serve(send_s=0.05, slowest=1 << 30)
    body = assets()["swagger/swagger-ui-bundle.js"].body
    with connect(url, ask(LARGE) * 20, buffer=4096) as sock:
        assert sock.recv(1)
        time.sleep(0.3)
        assert len(rest(sock)) < 19 * len(body)
    assert is_served(url)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_the_oldest_head_that_is_not_complete_gives_way(serve) -> None:
    url = serve(most=2, most_of_one=2, health=0)
    with connect(url, BEGUN) as oldest, connect(url, BEGUN) as second:
        assert is_served(url, "/")
        assert rest(oldest) == b""
        second.sendall(b"Connection: close\r\n\r\n")
        assert rest(second).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_is_not_read_gives_way(serve) -> None:
    assert assets()  # compressed once, which takes a while
    url = serve(most=1, most_of_one=1, health=0)
    with connect(url, ask(LARGE) * 20, buffer=4096) as sock:
        assert sock.recv(1)
        assert is_served(url, "/")


def test_an_address_gives_way_to_itself_only_before_all_are_taken(serve) -> None:
    url = serve(most=3, most_of_one=1, health=0)
    with (
        connect(url, BEGUN, address=OTHER) as other,
        connect(url, BEGUN) as first,
        connect(url, BEGUN) as second,
    ):
        assert rest(first) == b""
        for sock in (other, second):
            sock.sendall(b"Connection: close\r\n\r\n")
            assert rest(sock).startswith(b"HTTP/1.1 200 ")


def test_a_slow_reader_gets_the_whole_answer(serve) -> None:
    url = serve(send_s=5.0)
    body = assets()["swagger/swagger-ui-bundle.js"].body
    with connect(url, ask(LARGE, "Connection: close\r\n"), buffer=4096) as sock:
        first = sock.recv(1000)
        time.sleep(0.3)
        assert (first + rest(sock)).endswith(body[-1000:])


def test_streams_beyond_the_limit_and_hang_ups_log_no_traceback(serve, db, caplog) -> None:
    make_board(db)
    url = serve()
    request = ask("/b/double/live?device=H100&since=none")
    with caplog.at_level(logging.WARNING):
        clients = [connect(url, request) for _ in range(30)]
        first = [client.recv(65536) for client in clients]
        assert {answer.split()[1] for answer in first} == {b"200", b"429"}
        for client in clients:
            client.close()
        for _ in range(200):
            if (
                is_served(url, "/metrics")
                and "kernelcup_event_watchers 0.0" in httpx.get(f"{url}/metrics").text
            ):
                break
            time.sleep(0.02)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_an_address_with_too_much_unread_loses_its_oldest_connection(serve) -> None:
    body = assets()["swagger/swagger-ui-bundle.js"].body
    url = serve(most_unsent=2 * len(body))
    request = ask(LARGE, "Connection: close\r\n")
    with ExitStack() as held:
        other = held.enter_context(connect(url, request, address=OTHER, buffer=4096))
        clients = [held.enter_context(connect(url, request, buffer=4096)) for _ in range(4)]
        for client in (other, *clients):
            assert client.recv(1)
        lengths = [len(rest(client)) for client in (other, *clients)]
    assert max(lengths[1:3]) < len(body) < min(lengths[0], *lengths[3:])


def test_a_body_that_does_not_come_takes_no_place(serve, platform) -> None:
    platform.room = Room(readers=1)
    url = serve()
    head = b"POST /api/v1/auth/device HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    with connect(url, head), connect(url, head, address=OTHER):
        assert is_served(url, "/")


def test_one_address_that_loops_on_reads_waits_and_the_others_do_not(serve, db) -> None:
    make_board(db)
    url = serve()
    with ExitStack() as held:
        clients = [held.enter_context(connect(url, ask("/b/double") * 20)) for _ in range(40)]
        for _ in range(5):
            assert is_served(url, "/b/double")
        answers = [client.recv(65536) for client in clients]
    assert {answer.split()[1] for answer in answers} <= {b"200", b"429"}


def test_a_client_that_hangs_up_within_a_body_is_a_line_of_the_log(serve, person, caplog) -> None:
    ada = person("ada")
    head = (
        f"POST /api/v1/submissions HTTP/1.1\r\nHost: x\r\nAuthorization: {ada.headers['Authorization']}\r\n"
    )
    url = serve()
    with connect(url, f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{".encode()):
        pass
    assert counted(url, "/api/v1/submissions") == "499"
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_a_client_that_hangs_up_in_a_line_waits_no_longer(serve, platform) -> None:
    platform.room = Room(readers=0)
    url = serve()
    with connect(url, ask("/")):
        while not platform.room.readers._lines:
            time.sleep(0.001)
    until = time.monotonic() + capacity.PATIENCE_S / 2
    while platform.room.readers._lines and time.monotonic() < until:
        time.sleep(0.001)
    assert platform.room.readers._lines == {}
    platform.room = Room()
    assert counted(url, "none") == "499"


def counted(url: str, route: str) -> str:
    """Return the status with which a request of a route was counted, once it was."""
    for _ in range(200):
        found = re.search(
            f'requests_total{{method="[A-Z]+",route="{route}",status="([0-9]+)"}} 1.0',
            httpx.get(f"{url}/metrics").text,
        )
        if found:
            return found[1]
        time.sleep(0.01)
    return pytest.fail("it was not")
