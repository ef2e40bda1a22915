"""What `kernelcup doctor --url` says of a running service, through what stands before it."""

from __future__ import annotations

import socket
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from test_cli_commands import Command, Ended, command, home
from test_cli_remote import ada, db_url, server

from builders import make_actor, make_board
from fakes import FakeClock
from kernelcup.app.access import HERE
from kernelcup.app.machines import machines
from kernelcup.app.people.tokens import create_token, scopes_of
from kernelcup.cli.credentials import Credentials
from kernelcup.cli.operate import doctor
from kernelcup.domain import Role
from kernelcup.engine import Database
from kernelcup.launchers.base import MachineReading

Usage = namedtuple("Usage", ["total", "used", "free"])
__all__ = ["ada", "command", "db_url", "home", "server"]


@pytest.fixture(autouse=True)
def in_order(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server's clock go right, and its disk have room."""
    clock.now = datetime.now(UTC)
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: Usage(100e9, 40e9, 60e9))


@pytest.fixture
def root(db: Database, server: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An admin who signed in to the server on this machine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    actor = make_actor(db, "root", role=Role.ADMIN)
    secret = create_token(
        db, actor, name="test", scopes=scopes_of(Role.ADMIN), entry=HERE, now=clock()
    ).secret
    Credentials.load({"HOME": str(tmp_path)}).put(server, secret)
    return secret


@pytest.fixture
def collecting_proxy(server: str) -> Iterator[str]:
    """A proxy that passes an answer on once it is complete."""
    host, port = server.removeprefix("http://").split(":")

    def whole(upstream: socket.socket) -> bytes:
        answer = b""
        while part := upstream.recv(65536):
            answer += part
        return answer

    def pass_on(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as upstream, suppress(OSError):
            asked = client.recv(65536)
            upstream.sendall(asked.replace(b"Connection: keep-alive", b"Connection: close"))
            client.sendall(whole(upstream))

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=pass_on, args=[client], daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def lines(ended: Ended) -> dict[str, str]:
    """Return what was said of each thing."""
    said = (line.split(maxsplit=2) for line in ended.out.splitlines())
    return {name: f"{state} {text}" for state, name, text in said}


def test_a_service_in_order_is_found_in_order(
    command: Command, home: Path, root, db: Database, server: str, clock: FakeClock
) -> None:
    make_board(db, now=clock())
    readings = [MachineReading(name="lab", slots={"H100": 1})]
    machines.note_seen(db, readings, launcher="local", is_own=True, now=clock())
    ended = command("doctor", "--url", server)
    said = lines(ended)
    assert ended.code == 0, ended.out
    assert said["clock"].startswith("ok ")
    assert said["streams"] == "ok the first event came while the stream was open"
    assert said["version"].startswith("ok ")
    assert said["machine:lab"].startswith("ok up, last seen")
    assert said[f"disk:{socket.gethostname()}"].startswith("ok 60.0 GB free at /")
    assert said["tls"].startswith("missing none: who is in between reads tokens")


def test_problems_are_a_line_each_and_an_exit_code(
    command: Command, root, db: Database, server: str, clock: FakeClock
) -> None:
    make_board(db)
    readings = [MachineReading(name="lab", slots={"H100": 1})]
    machines.note_seen(db, readings, launcher="local", is_own=True, now=clock())
    clock.advance(3600)
    ended = command("doctor", "--url", server)
    said = lines(ended)
    assert ended.code == 4
    assert said["clock"] in {
        f"BROKEN +{3600 + off / 10:.1f} s from this machine's (let NTP set both)" for off in range(-20, 1)
    }
    assert said["machine:lab"].startswith("BROKEN down, last seen")
    assert "kernelcup db backup --keep 14" in said["backup"]


def test_a_proxy_that_collects_streams_is_found(
    command: Command, home: Path, db: Database, collecting_proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "STREAM_S", 0.5)
    make_board(db)
    ended = command("doctor", "--url", collecting_proxy)
    assert ended.code == 4
    assert lines(ended)["streams"] == (
        "BROKEN no event within 0.5 s: timed out (a proxy collects them; nginx: proxy_buffering off)"
    )


def test_who_is_no_admin_sees_what_everybody_sees(command: Command, ada, server: str) -> None:
    ended = command("doctor", "--url", server)
    said = lines(ended)
    assert ended.code == 0
    assert said["streams"] == "ok not tried: you see no leaderboard"
    assert (
        said["service"]
        == f"missing machines, disk and backups are shown to admins (kernelcup login {server})"
    )
    assert not any(name.startswith(("machine", "disk", "backup")) for name in said)


def test_a_service_that_does_not_answer_is_broken(command: Command, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ended = command("doctor", "--url", f"http://127.0.0.1:{port}")
    assert (ended.code, lines(ended)["service"].startswith("BROKEN http://127.0.0.1:")) == (4, True)
    refused = command("doctor", "--url", "ftp://cup")
    assert (refused.code, "expected an address such as" in refused.err) == (3, True)


def test_an_older_server_is_named(
    command: Command, home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.__version__", "9.9.9")
    assert lines(command("doctor", "--url", server))["version"].endswith("; here it is 9.9.9")
