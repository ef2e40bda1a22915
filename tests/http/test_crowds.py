"""Many connections, many requests and slow ones: the service refuses what is too much and goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
import test_front_door
from anyio import to_thread
from sqlalchemy import event, text
from test_front_door import serve

from builders import SUBMISSION, make_board, make_submission
from kernelcup.app.boards import git_source
from kernelcup.domain import Role
from kernelcup.engine.database import Database
from kernelcup.errors import RateLimited, StorageUnavailable
from kernelcup.http import server as web_server
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.http.state import Platform

__all__ = ["serve"]

FILES = 512
SUBMISSIONS = "/api/v1/submissions"


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let this process open few files for a while."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_stopping_server_answers_what_it_no_longer_waits_for(platform: Platform, monkeypatch) -> None:
    monkeypatch.setattr(web_server, "GRACE_S", 0)
    came = threading.Event()

    async def endless() -> None:
        came.set()
        await asyncio.Event().wait()

    with closing(listen("127.0.0.1", 0)) as sock, ThreadPoolExecutor() as pool:
        server = WebServer(platform, sock)
        server.app.add_api_route("/endless", endless)
        server.wait_until_ready()
        asked = pool.submit(httpx.get, f"{url_of(sock)}/endless", timeout=60)
        assert came.wait(60)
        server.stop()
        answer = asked.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "server_stopping")
    assert answer.headers["X-Request-Id"] == answer.json()["error"]["request_id"]


def test_a_stopping_server_ends_streams_at_once_and_quietly(platform: Platform, db, person, caplog) -> None:
    make_board(db)
    ada = person("ada")
    with closing(listen("127.0.0.1", 0)) as sock:
        server = WebServer(platform, sock)
        server.wait_until_ready()
        url = f"{url_of(sock)}/b/double/live?device=H100&since=none"
        with httpx.stream("GET", url, headers=ada.headers, timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("id: ")
            server.stop()
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                list(lines)
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


connect = partial(test_front_door.connect, address="127.0.0.1")
"""Open a connection from where all other requests come from."""


def busy(url: str) -> socket.socket:
    """Open a connection whose request is under way."""
    sock = connect(url)
    head = b"POST /api/v1/auth/device HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    sock.sendall(head + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n")
    assert sock.recv(4096).startswith(b"HTTP/1.1 100 ")
    return sock


def submit(url: str, headers: dict[str, str]) -> httpx.Response:
    body = {"leaderboard": "double", "devices": ["H100"], "code": SUBMISSION}
    return httpx.post(f"{url}{SUBMISSIONS}", json=body, headers=headers, timeout=60)


def test_a_server_opens_as_many_files_as_it_may(few_files) -> None:
    from kernelcup.http.server import raise_file_limit

    assert raise_file_limit() > FILES
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > FILES


def test_a_connection_too_many_is_refused_and_the_others_go_on(serve) -> None:
    url = serve(most=3, health=0)
    held = [busy(url) for _ in range(3)]
    with connect(url) as late:
        answer = late.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: " in answer
    held.pop().close()
    for _ in range(100):
        try:
            assert httpx.get(f"{url}/livez").text == "ok"
            break
        except (httpx.TransportError, AssertionError):
            continue  # its end was not seen yet
    else:
        pytest.fail("nobody was let in again")
    for each in held:
        each.close()


def test_one_address_does_not_take_all_connections(serve) -> None:
    url = serve(most=10, most_of_one=1, health=0)
    with busy(url) as _, connect(url) as second:
        assert second.recv(4096).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("limits", [{"most": 1}, {"most_of_one": 1}])
def test_a_full_server_answers_health_checks(serve, limits: dict[str, int]) -> None:
    url = serve(health_head_s=60.0, **limits)
    with busy(url):
        for _ in range(5):
            answer = httpx.get(f"{url}/livez?x=1")
            assert (answer.text, answer.headers["Connection"]) == ("ok", "close")
        refused = httpx.post(f"{url}/api/v1/auth/device", json={"client": "test"})
        assert (refused.status_code, refused.headers["Connection"]) == (503, "close")
        held = [connect(url) for _ in range(4)]
        with connect(url) as late:  # the places for health checks are few for one address too
            assert late.recv(4096).startswith(b"HTTP/1.1 503 ")
        for each in held:
            each.close()


def test_a_place_for_health_checks_is_held_for_a_moment_only(serve) -> None:
    url = serve(most=0, health_head_s=0.05)
    with connect(url) as slow:
        assert slow.recv(4096).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(serve, sent: bytes) -> None:
    url = serve(head_s=0.05)
    with connect(url) as slow:
        if sent:
            slow.sendall(sent)
        assert slow.recv(4096) == b""


def test_a_request_that_takes_longer_than_its_head_may_is_answered(serve, person, db) -> None:
    make_board(db)
    url = serve(head_s=0.5)
    with httpx.Client(base_url=url) as client:
        for _ in range(3):
            assert client.get("/api/v1/leaderboards").status_code == 200


def test_one_person_has_so_many_streams(server_url, person, db, platform) -> None:
    make_board(db)
    ada, bob = person("ada"), person("bob")
    number = make_submission(db).id
    address = f"{server_url}{SUBMISSIONS}/{number}/events"
    with httpx.Client() as client:
        open_ones = [client.stream("GET", address, headers=ada.headers) for _ in range(20)]
        lines = [each.__enter__().iter_lines() for each in open_ones]
        for each in lines:
            next(each)
        refused = client.get(address, headers=ada.headers, timeout=30)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert int(refused.headers["Retry-After"]) > 0
        assert client.get(f"{server_url}{SUBMISSIONS}", headers=bob.headers).status_code == 200
        for each in open_ones:
            each.__exit__(None, None, None)


def test_a_server_that_is_short_of_files_says_so(client, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("kernelcup.app.queue.queries.backlog.backlogs", short)
    answer = client.get("/api/v1/queue")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
    assert "Retry-After" in answer.headers


def test_one_long_write_stops_no_reader(server_url, person, db) -> None:
    make_board(db)
    ada = person("ada")
    assert httpx.get(f"{server_url}/api/v1/me", headers=ada.headers).status_code == 200  # notes the use
    end = threading.Event()

    def write() -> None:
        with db.write():
            end.wait(120)

    with ThreadPoolExecutor(40) as pool:
        writer = pool.submit(write)
        waiting = [pool.submit(submit, server_url, ada.headers) for _ in range(15)]
        try:
            for path in ("/livez", "/healthz", "/api/v1/leaderboards", "/api/v1/submissions") * 2:
                assert httpx.get(f"{server_url}{path}", headers=ada.headers, timeout=30).status_code in (
                    200,
                    503,
                )
            assert httpx.get(f"{server_url}/livez", timeout=30).text == "ok"
        finally:
            end.set()
        assert {each.result().status_code for each in waiting} <= {201, 503}
        writer.result()


def test_syncs_that_hang_stop_nobody(server_url, person, monkeypatch: pytest.MonkeyPatch) -> None:
    end, begun = threading.Event(), threading.Event()

    def hang(*_: object) -> str:
        begun.set()
        end.wait(120)
        raise StorageUnavailable("the test is over")

    monkeypatch.setattr(git_source, "fetch_problems", hang)
    grace = person("grace", Role.CREATOR).headers
    body = {"repository": "https://example.org/x"}

    def sync() -> int:
        return httpx.post(
            f"{server_url}/api/v1/problem-sets/sync", json=body, headers=grace, timeout=150
        ).status_code

    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(sync)
        begun.wait(60)
        others = [pool.submit(sync) for _ in range(11)]
        try:
            for path in ("/livez", "/api/v1/leaderboards"):
                assert httpx.get(f"{server_url}{path}", timeout=30).status_code == 200
            assert {each.result(timeout=60) for each in others} == {429}
        finally:
            end.set()
        assert first.result() == 503


def test_health_answers_while_the_database_hangs(app, client) -> None:
    from kernelcup.http.health import Watch

    end = threading.Event()

    def look() -> dict[str, str]:
        end.wait(120)
        return {}

    app.state.health = Watch(look, patience_s=0.05)
    try:
        for _ in range(3):
            answer = client.get("/healthz")
            assert (answer.status_code, answer.json()["status"]) == (503, "failed")
            assert answer.json()["checks"] == {"database": "does not answer"}
            assert client.get("/readyz").json() == {
                "status": "not ready",
                "checks": {"database": "does not answer"},
            }
        assert client.get("/livez").text == "ok"
    finally:
        end.set()


@pytest.mark.parametrize("full", [{"readers": 0}, {"writers": 0}])
def test_who_waits_too_long_is_refused(
    client, person, db, platform, monkeypatch: pytest.MonkeyPatch, full: dict[str, int]
) -> None:
    from kernelcup.http import capacity

    monkeypatch.setattr(capacity, "STANDSTILL_S", 0.01)
    make_board(db)
    ada = person("ada")
    platform.room = capacity.Room(**full)
    body = {"leaderboard": "double", "devices": ["H100"], "code": SUBMISSION}
    answer = client.post(SUBMISSIONS, json=body, headers=ada.headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
    assert int(answer.headers["Retry-After"]) > 0
    assert client.get("/livez").text == "ok"
    assert {client.get(path).json()["checks"]["database"] for path in ("/healthz", "/readyz")} == {"ok"}
    for path in (SUBMISSIONS, "/leaderboards", "/b/double"):
        answer = client.get(path, headers=ada.headers)
        assert answer.status_code == (503 if "readers" in full else 200)
        if "readers" in full:
            assert int(answer.headers["Retry-After"]) > 0
            assert answer.json()["detail"] == answer.json()["error"]["message"]  # for the existing client


class Hanging:
    """A ranking that takes until the test ends."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.begun = threading.Semaphore(0)
        self.made = 0

    def __call__(self, *_: object) -> bytes:
        self.made += 1
        self.begun.release()
        self.end.wait(120)
        return b"rank,user\n"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """Let rankings as files take until the test ends."""
    each = Hanging()
    monkeypatch.setattr("kernelcup.http.pages.boards.boards._csv", each)
    yield each
    each.end.set()


def test_heavy_reads_delay_no_other_read_and_are_refused_in_time(
    server_url, person, db, platform, hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.http.capacity.STANDSTILL_S", 0.05)
    make_board(db)
    readers = [person(f"reader{number}") for number in range(12)]

    def download(headers: dict[str, str]) -> int:
        return httpx.get(f"{server_url}/b/double/standings.csv", headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(12) as pool:
        heavy = [pool.submit(download, each.headers) for each in readers]
        assert hanging.begun.acquire(timeout=60)
        try:
            with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=60) as other:
                for path in ("/", "/b/double", "/api/v1/leaderboards", "/api/v1/submissions") * 3:
                    assert other.get(f"{server_url}{path}").status_code == 200
            first = list(islice(as_completed(heavy, timeout=60), 11))
            assert [each.result() for each in first] == [429] * 11
        finally:
            hanging.end.set()
        assert sorted(each.result(timeout=60) for each in heavy) == [200] + [429] * 11
    assert hanging.made == 1


def test_an_address_waits_for_its_own_heavy_read_and_others_do_not(
    server_url, db, hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.http.capacity.STANDSTILL_S", 0.05)
    make_board(db, devices=["H100", "MI300"])

    def download(address: str, device: str) -> httpx.Response:
        transport = httpx.HTTPTransport(local_address=address)
        with httpx.Client(transport=transport, timeout=60) as client:
            headers = {"Accept": "application/json"}
            return client.get(f"{server_url}/b/double/standings.csv?device={device}", headers=headers)

    with ThreadPoolExecutor(2) as pool:
        heavy = []
        for address, device in (("127.0.0.2", "H100"), ("127.0.0.3", "MI300")):
            heavy.append(pool.submit(download, address, device))
            assert hanging.begun.acquire(timeout=60)
        second = download("127.0.0.2", "H100")
        assert (second.status_code, second.json()["error"]["code"]) == (429, "rate_limited")
        assert int(second.headers["Retry-After"]) > 0
        hanging.end.set()
        assert [each.result().status_code for each in heavy] == [200, 200]
    assert download("127.0.0.2", "H100").text == "rank,user\n"
    assert hanging.made == 2  # the last one came out of the cache


def test_what_reads_take_is_measured_by_each_service_for_itself(
    client, db, platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelcup.http.capacity import Gate, Room

    entered: list[Gate] = []
    enter = Gate.enter

    async def noted(gate: Gate, *settings: Any) -> None:
        entered.append(gate)
        await enter(gate, *settings)

    monkeypatch.setattr(Gate, "enter", noted)
    make_board(db)

    def is_slow() -> bool:
        entered.clear()
        assert client.get("/b/double/standings.csv").status_code == 200
        return platform.room.slow_readers in entered

    quick = [is_slow() for _ in range(20)]
    assert quick[0]
    assert not quick[-1]
    platform.room = Room()
    assert is_slow()


def test_cached_answers_have_a_number_of_bytes() -> None:
    from kernelcup.http import capacity as rooms

    cache, made = rooms.Cache(), []

    def make(number: int) -> bytes:
        made.append(number)
        return b"x" * (rooms.CACHED_BYTES // 2)

    for number in (1, 2, 1, 3, 3, 1):  # the third one takes the place of the first
        cache.get(number, lambda number=number: make(number))
    assert made == [1, 2, 3, 1]


def test_one_person_has_so_many_requests_at_once(person) -> None:
    from kernelcup.http.capacity import MOST_OF_ONE, Room

    room, ada, bob = Room(), person("ada").actor, person("bob").actor
    held = [room.person(ada) for _ in range(MOST_OF_ONE)]
    for each in held:
        each.__enter__()
    with pytest.raises(RateLimited), room.person(ada):
        pytest.fail("one too many")
    with room.person(bob):
        pass
    for each in held:
        each.__exit__(None, None, None)
    with room.person(ada):
        pass


def test_threads_are_few(app, client) -> None:
    async def count() -> float:
        return to_thread.current_default_thread_limiter().total_tokens

    assert client.portal.call(count) == 12


def damage(db: Database) -> None:
    """Write rubbish over all pages of a SQLite database but the first."""
    path = Path(str(db.engine.url.database))
    with db.engine.connect() as connection:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    db.engine.dispose()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def test_a_damaged_database_is_not_ready(client, db) -> None:
    make_board(db)
    damage(db)
    answer = client.get("/api/v1/leaderboards")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_unavailable")
    assert "Retry-After" in answer.headers
    for path, status in (("/healthz", "failed"), ("/readyz", "not ready")):
        health = client.get(path)
        assert (health.status_code, health.json()["status"]) == (503, status)


def test_a_read_only_database_is_not_ready(client, db, person) -> None:
    ada = person("ada")
    make_board(db)
    event.listen(db.engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=ON"))
    db.engine.dispose()
    body = {"leaderboard": "double", "devices": ["H100"], "code": SUBMISSION}
    answer = client.post(SUBMISSIONS, json=body, headers=ada.headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_unavailable")
    assert client.get("/healthz").json() == {"status": "ok", "checks": {"database": "ok"}}
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    assert ready.json()["checks"]["writes"] == "the database cannot be written"
