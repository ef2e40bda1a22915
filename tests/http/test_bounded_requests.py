"""Nobody makes the service work hard before it knows who asks, nor much harder afterwards."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi import FastAPI
from route_rules import PREFIX, ROUTES, Who

from kernelcup.domain import Role
from kernelcup.http.middleware import BodyLimit, allow_body

CHUNK = 64 << 10
JSON = {"Content-Type": "application/json"}
SIGN_IN_ERRORS = (400, 401)
"""The existing service says 400 where a header of its client is missing."""


class Sender:
    """A client that has a large body to send, and counts how much of it is asked for."""

    def __init__(self, app: FastAPI, path: str, *, size: int, headers: dict[str, str]) -> None:
        self._app, self._left = app, size
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }
        self.read = self.status = 0

    async def receive(self) -> dict[str, Any]:
        """Send the next piece."""
        size = min(CHUNK, self._left)
        self._left -= size
        self.read += size
        return {"type": "http.request", "body": b" " * size, "more_body": self._left > 0}

    async def send(self, message: dict[str, Any]) -> None:
        """Note the status of the answer."""
        self.status = message.get("status", self.status)

    def go(self) -> None:
        """Send it."""
        asyncio.run(self._app(self._scope, self.receive, self.send))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{PREFIX}/submissions", "application/json"),
        (f"{PREFIX}/leaderboards", "multipart/form-data; boundary=x"),
        ("/submission/double/H100/test", "multipart/form-data; boundary=x"),
        ("/admin/update-problems", "application/json"),
    ],
)
def test_the_body_of_somebody_unknown_is_not_read(app, path: str, kind: str) -> None:
    sender = Sender(app, path, size=15 << 20, headers={"Content-Type": kind})
    sender.go()
    assert sender.status in SIGN_IN_ERRORS
    assert sender.read == 0


def test_what_needs_an_account_says_so_before_it_says_what_is_wrong(client) -> None:
    statuses = {}
    for (method, path), route in ROUTES.items():
        if route.who is Who.EVERYBODY or method == "GET":
            continue
        answer = client.request(method, PREFIX + path.format(**route.values), content=b"{", headers=JSON)
        statuses[method, path] = answer.status_code
    assert statuses == dict.fromkeys(statuses, 401)


def test_the_forms_of_sign_in_are_small(client) -> None:
    large = {"client": "test", "scopes": ["read"] * 20_000}
    answer = client.post(f"{PREFIX}/auth/device", json=large)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large")


def test_a_json_request_is_smaller_than_an_upload(client, person) -> None:
    ada = person("ada")
    answer = client.post(f"{PREFIX}/submissions", content=b" " * (5 << 20), headers={**ada.headers, **JSON})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large")
    # The largest file, each of its characters escaped, is refused for nothing that its size would cause.
    code = "é" * 499_999
    sent = json.dumps({"code": code, "leaderboard": "none"}).encode()
    answer = client.post(f"{PREFIX}/submissions", content=sent, headers={**ada.headers, **JSON})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_an_answer_names_the_first_places_and_how_many_more_there_are(client, person) -> None:
    wrong = {f"unknown{number}": 0 for number in range(60)}
    answer = client.post(f"{PREFIX}/submissions", json=wrong, headers=person("ada").headers)
    error = answer.json()["error"]
    assert answer.status_code == 422
    assert len(error["details"]) == 10
    assert error["message"].endswith("; and 50 more")  # of 60 keys


def test_very_many_keys_are_one_error(client, person) -> None:
    wrong = "{" + ",".join(f'"{number:x}":0' for number in range(100_000)) + "}"
    headers = {**person("ada").headers, **JSON}
    answer = client.post(f"{PREFIX}/submissions", content=wrong.encode(), headers=headers)
    error = answer.json()["error"]
    assert answer.status_code == 422
    assert error["details"] == [{"where": "body", "text": "has 100,000 keys; at most 100 are read"}]


def test_a_long_list_is_one_error(client, person) -> None:
    wrong = {"code": "x", "devices": [0] * 100_000}
    answer = client.post(f"{PREFIX}/submissions", json=wrong, headers=person("ada").headers)
    assert answer.status_code == 422
    assert len(answer.json()["error"]["details"]) <= 10


def test_a_long_key_is_cut(client, person) -> None:
    answer = client.post(
        f"{PREFIX}/submissions", json={"code": "x", "k" * 1_000_000: 1}, headers=person("ada").headers
    )
    assert answer.status_code == 422
    assert len(answer.content) < 2_000


def test_the_existing_clients_errors_are_bounded(client, person) -> None:
    wrong = {"repository": 0, "branch": 0, "problem_set": 0, "force": "?", "visibility": "k" * 100_000}
    headers = person("root", Role.ADMIN).headers
    answer = client.post("/admin/update-problems", json=wrong, headers=headers)
    assert answer.status_code == 422
    assert len(answer.content) < 2_000
    anonymous = client.post("/admin/update-problems", content=b"{", headers=JSON)
    assert anonymous.status_code == 401


async def _stalls() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError("never")


def test_a_request_that_does_not_go_on_is_refused() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {"type": "http", "headers": [], "state": {"request_id": "x"}}
    asyncio.run(BodyLimit(app, silence_s=0.01)(scope, _stalls, send))
    assert answers[0]["status"] == 408
    assert b"request_timeout" in answers[1]["body"]


@pytest.mark.parametrize("known", [False, True])
def test_a_body_that_drips_is_refused_after_a_total_time(known: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if known:
            allow_body(scope)
        while True:
            await receive()

    read, answers = [], []

    async def drips() -> dict[str, Any]:
        read.append(1)
        assert len(read) < 100_000
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def send(message: Any) -> None:
        answers.append(message)

    limits = {"unknown_s": 60.0, "whole_s": 0.01} if known else {"unknown_s": 0.01, "whole_s": 60.0}
    scope = {"type": "http", "headers": [], "state": {"request_id": "x"}}
    asyncio.run(BodyLimit(app, silence_s=30.0, **limits)(scope, drips, send))
    assert answers[0]["status"] == 408
    assert (b"connection", b"close") in answers[0]["headers"]
    assert b"took too long to arrive" in answers[1]["body"]


def test_a_route_may_give_a_known_sender_more_time_for_a_body() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        allow_body(scope, whole_s=60.0)
        while (await receive())["more_body"]:
            pass

    read = []

    async def drips() -> dict[str, Any]:
        read.append(1)
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"", "more_body": len(read) < 20}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "headers": [], "state": {"request_id": "x"}}
    asyncio.run(BodyLimit(app, silence_s=30.0, whole_s=0.01)(scope, drips, send))
    assert len(read) == 20
