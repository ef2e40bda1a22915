"""``login``, ``logout`` and ``whoami`` against a server that is not there: only what it would answer."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_cli_commands import Command, command, home

from kernelcup.cli.compete import login
from kernelcup.cli.credentials import write_popcorn
from kernelcup.client import transport as client_module
from kernelcup.client.core import read_server
from kernelcup.client.transport import Client
from kernelcup.errors import (
    ConfigError,
    InvalidTask,
    InvalidValue,
    NotFound,
    RateLimited,
    ServerUnavailable,
    SignInDenied,
    SignInNeeded,
)

__all__ = ["command", "home"]

SERVER = "https://cup.example.org"
ME = {
    "id": 1,
    "name": "ada",
    "role": "participant",
    "banned_at": None,
    "ban_reason": "",
    "created_at": "2026-01-01T00:00:00Z",
    "identities": [],
    "scopes": ["read", "submit"],
    "direct_messages": True,
}
Answer = Callable[[httpx.Request], httpx.Response]


def error(status: int, code: str, **more: Any) -> httpx.Response:
    """Answer with an error in our shape."""
    return httpx.Response(status, json={"error": {"code": code, "message": f"about {code}", **more}})


def client_of(answer: Answer) -> Client:
    """Return a client of a server that answers so."""
    return Client(SERVER, "kc_x", transport=httpx.MockTransport(answer))


@pytest.fixture
def served(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[httpx.Request]:
    """A server at which every token is ada's; what it was asked."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if request.headers.get("authorization") == "Bearer kc_bad":
            return error(401, "sign_in_needed")
        return httpx.Response(200, json={"done": True} if request.method == "DELETE" else ME)

    real = client_module.Client

    def make(server: str, token: str | None = None) -> Client:
        return real(server, token, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(client_module, "Client", make)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return asked


def test_a_token_is_kept_where_only_its_owner_reads_it(
    command: Command, served: list[httpx.Request], tmp_path: Path
) -> None:
    ended = json.loads(command("login", SERVER + "/", "--token", "kc_good", "--json").out)
    assert ended == {"server": SERVER, "user": "ada", "role": "participant", "scopes": ["read", "submit"]}
    file = tmp_path / ".config/kernelcup/credentials.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"default": SERVER, "servers": {SERVER: {"token": "kc_good"}}}
    assert "You are ada" in command("whoami").out
    assert served[-1].headers["authorization"] == "Bearer kc_good"
    assert command("logout", "--json").body == {"signed_out": SERVER}
    assert (served[-1].method, served[-1].url.path) == ("DELETE", "/api/v1/tokens/current")
    assert command("whoami").code == 3


def test_a_token_of_no_use_is_not_kept(command: Command, served: list[httpx.Request]) -> None:
    ended = command("login", SERVER, "--token", "kc_bad")
    assert ended.code == 3
    assert "kc_bad" not in ended.out + ended.err
    assert "Next: kernelcup login" in command("whoami").err


def test_each_server_has_its_own_token(command: Command, served: list[httpx.Request]) -> None:
    command("login", SERVER, "--token", "kc_one")
    command("login", "http://127.0.0.1:8000", "--token", "kc_two")
    command("whoami", SERVER)
    assert served[-1].headers["authorization"] == "Bearer kc_one"
    command("logout")
    assert command("whoami", "--json").body["server"] == SERVER


def test_the_existing_client_is_signed_in_too(
    command: Command, served: list[httpx.Request], tmp_path: Path
) -> None:
    file = tmp_path / ".popcorn.yaml"
    file.write_text("# mine\nother: 1\ncli_id: old\n")
    ended = command("login", SERVER, "--token", "kc_good", "--popcorn")
    assert f"POPCORN_API_URL={SERVER}" in ended.out
    assert file.read_text() == "# mine\nother: 1\ncli_id: kc_good\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_of_the_existing_client_that_is_none_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / ".popcorn.yaml"
    file.write_text("- a list\n")
    with pytest.raises(ConfigError):
        write_popcorn("kc_x", {"HOME": str(tmp_path)})
    assert file.read_text() == "- a list\n"


def test_a_file_of_credentials_that_is_none_is_said_without_its_text(
    command: Command, served: list[httpx.Request], tmp_path: Path
) -> None:
    file = tmp_path / ".config/kernelcup/credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"servers": "kc_canary"}')
    ended = command("whoami")
    assert ended.code == 4
    assert "kc_canary" not in ended.err


def test_a_command_line_waits_until_it_is_let_in(capsys: pytest.CaptureFixture[str]) -> None:
    begun = {"device_code": "d", "user_code": "BCDF-GHJK", "verification_uri": f"{SERVER}/x", "interval": 5}
    answers = iter(
        [
            httpx.Response(201, json=begun),
            error(400, "authorization_pending"),
            error(400, "slow_down"),
            httpx.Response(200, json={"access_token": "kc_new", "token_type": "Bearer", "user": "ada"}),
        ]
    )
    slept: list[float] = []
    with client_of(lambda _: next(answers)) as client:
        assert login.let_in(client, ["read"], slept.append) == "kc_new"
    assert slept == [5, 5, 10]
    said = capsys.readouterr()
    assert "BCDF-GHJK" in said.err
    assert said.out == ""


def test_a_refused_command_line_ends() -> None:
    begun = {"device_code": "d", "user_code": "u", "verification_uri": "v", "interval": 1}
    answers = iter([httpx.Response(201, json=begun), error(400, "access_denied")])
    with client_of(lambda _: next(answers)) as client, pytest.raises(SignInDenied):
        login.let_in(client, ["read"], lambda _: None)


def test_errors_of_the_server_are_errors_here() -> None:
    with client_of(lambda _: error(404, "not_found", next=["look"])) as client:
        with pytest.raises(NotFound, match="about not_found") as caught:
            client.request("GET", "/x")
        assert caught.value.__notes__ == ["look"]
    with client_of(lambda _: error(429, "rate_limited", retry_after_s=7)) as client:
        with pytest.raises(RateLimited) as limited:
            client.request("GET", "/x")
        assert limited.value.retry_after_s == 7
    problem = {"file": "task.yml", "line": 3, "column": 2, "key": "tests", "text": "missing"}
    message = "task.yml:3:2: tests: missing\nand 6 more"
    with client_of(lambda _: error(400, "invalid_task", problems=[problem], message=message)) as client:
        with pytest.raises(InvalidTask) as invalid:
            client.request("GET", "/x")
        assert (str(invalid.value), len(invalid.value.problems)) == (message, 1)
    with client_of(lambda _: error(422, "of_a_later_version")) as client, pytest.raises(InvalidValue):
        client.request("GET", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(404, text="nothing"),
        httpx.Response(302, headers={"location": "https://evil.example"}),
        httpx.Response(503, json={"error": {"code": "storage_unavailable", "message": "x"}}),
        httpx.Response(500, json=[]),
    ],
)
def test_a_server_that_fails_is_unavailable(answer: httpx.Response) -> None:
    with client_of(lambda _: answer) as client, pytest.raises(ServerUnavailable):
        client.request("GET", "/x")


def test_a_server_that_is_not_there_is_unavailable(command: Command, served: list[httpx.Request]) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with client_of(fail) as client, pytest.raises(ServerUnavailable, match="refused"):
        client.request("GET", "/x")


@pytest.mark.parametrize("text", ["", "ftp://x", "https://a:b@x", "https://x?y=1", "http://[", "https://"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        read_server(text)


def test_nobody_is_signed_in_at_first(command: Command, served: list[httpx.Request]) -> None:
    assert SignInNeeded.code in command("whoami").err
