"""The bot's client of the API: tries again what is safe to repeat, follows streams where they broke."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from kernelcup.app.boards import managing
from kernelcup.bot.api import SERVICE, Api, Happening, Person
from kernelcup.bot.messages.texts import Attached
from kernelcup.client.core import LONG_S
from kernelcup.client.requests import path_of
from kernelcup.errors import DeviceNeeded, NotFound, Paused, ServerUnavailable

pytestmark = pytest.mark.anyio
ADA = Person(7, "ada l:ö")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Answer = httpx.Response | Exception


def make(*answers: Answer | Callable[[httpx.Request], Answer]) -> tuple[Api, list[httpx.Request]]:
    """Return an API that answers in turn, and the requests."""
    left, seen = list(answers), []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        found = left.pop(0)
        answer = found(request) if callable(found) else found
        if isinstance(answer, Exception):
            raise answer
        return answer

    api = Api("http://cup", "secret", transport=httpx.MockTransport(handle), first_pause_s=0.001)
    return api, seen


def error(status: int, code: str, **more: object) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": "No.", **more}})


def stream(*events: tuple[int, str]) -> httpx.Response:
    lines = [
        f"id: {number}\nevent: {kind}\ndata: {json.dumps({'job': 1, 'data': {}})}\n\n"
        for number, kind in events
    ]
    return httpx.Response(200, text="".join(lines), headers={"Content-Type": "text/event-stream"})


async def test_who_asks_is_told() -> None:
    api, seen = make(*[httpx.Response(200, json={})] * 3)
    for who in (ADA, SERVICE, None):
        await api.get("/me", who)
    assert seen[0].headers["X-KernelCup-Act-For"] == "discord:7:ada%20l%3A%C3%B6"
    assert seen[1].headers["Authorization"] == "Bearer secret"
    assert "X-KernelCup-Act-For" not in seen[1].headers
    assert "Authorization" not in seen[2].headers


def test_a_person_is_named_with_what_discord_shows() -> None:
    assert Person(7, "ada").header == "discord:7:ada"
    assert Person(7, "ada", "Ada: \U0001f40d/").header == "discord:7:ada:Ada%3A%20%F0%9F%90%8D%2F"


@pytest.mark.parametrize(
    "trouble", [httpx.ConnectError("no"), httpx.ReadTimeout("no"), error(503, "storage_unavailable")]
)
async def test_a_request_with_a_key_is_tried_again(trouble: Answer) -> None:
    api, seen = make(trouble, httpx.Response(201, json={"id": 1}))
    assert await api.post("/submissions", ADA, json={}, key="k") == {"id": 1}
    assert [each.headers["Idempotency-Key"] for each in seen] == ["k", "k"]


async def test_a_request_that_might_be_done_twice_is_not_tried_again() -> None:
    api, seen = make(httpx.ReadTimeout("no"), httpx.Response(201, json={}))
    with pytest.raises(ServerUnavailable):
        await api.post("/invites", ADA, json={})
    assert len(seen) == 1


async def test_an_operation_has_its_own_time_limit() -> None:
    api, seen = make(httpx.ConnectError("no"), httpx.Response(200, json={}))
    with pytest.raises(ServerUnavailable):
        await api.call(managing.create, ADA, task=Attached("a.py", b"1"), name="b")
    await api.call(managing.check, ADA, task=Attached("a.py", b"1"), name="b")
    assert [each.extensions["timeout"]["read"] for each in seen] == [600, 30]


def test_a_proxy_waits_as_long_as_the_clients() -> None:
    deploy = Path(__file__).parents[3] / "deploy"
    (nginx,) = re.findall(r"proxy_read_timeout (\d+)s;", (deploy / "nginx.conf").read_text(encoding="utf-8"))
    (caddy,) = re.findall(
        r"response_header_timeout (\d+)m", (deploy / "Caddyfile").read_text(encoding="utf-8")
    )
    assert min(int(nginx), 60 * int(caddy)) >= LONG_S


async def test_a_refusal_is_the_same_error_as_on_the_server_and_not_tried_again() -> None:
    api, seen = make(error(503, "paused"), error(404, "not_found"))
    with pytest.raises(Paused, match="No"):
        await api.post("/submissions", ADA, json={}, key="k")
    with pytest.raises(NotFound):
        await api.get("/leaderboards/x", ADA)
    assert len(seen) == 2


async def test_between_which_devices_to_choose_is_told() -> None:
    api, _ = make(error(400, "device_needed", leaderboard="double", devices=["H100", "T4"]))
    with pytest.raises(DeviceNeeded) as caught:
        await api.post("/submissions", ADA, json={}, key="k")
    assert (caught.value.leaderboard, caught.value.devices) == ("double", ("H100", "T4"))


async def test_an_answer_of_something_else_is_no_answer() -> None:
    api, _ = make(httpx.Response(200, text="<html>"), httpx.Response(500, text="<html>"))
    for _ in range(2):
        with pytest.raises(ServerUnavailable):
            await api.get("/me", ADA)


async def test_a_broken_stream_is_taken_up_where_it_broke() -> None:
    running = httpx.Response(200, json={"ended": False})
    api, seen = make(
        stream((1, "accepted"), (2, "started")),
        running,
        httpx.ConnectError("gone"),
        running,
        stream((3, "finished"), (4, "done")),
    )
    found = [each.kind async for each in api.follow(9, ADA, after=0)]
    assert found == ["accepted", "started", "finished", "done"]
    streams = [each for each in seen if each.url.path.endswith("/events")]
    assert [each.headers["Last-Event-ID"] for each in streams] == ["0", "2", "2"]


async def test_of_what_has_ended_meanwhile_the_rest_is_told() -> None:
    item = {"id": 5, "kind": "done", "job": None, "data": {}}
    api, _ = make(
        stream(),
        httpx.Response(200, json={"ended": True}),
        httpx.Response(200, json={"items": [item], "next": None}),
    )
    assert [each async for each in api.follow(9, ADA, after=4)] == [
        Happening(id=5, kind="done", job=None, data={})
    ]


def test_addresses_are_made_of_anything() -> None:
    assert path_of("leaderboards", "a/b?c#d", 1) == "/leaderboards/a%2Fb%3Fc%23d/1"
