"""JSON: small bodies are read at once, large ones in a thread that lets the others go on; the answers are the same."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from builders import SUBMISSION, make_board
from kernelcup.http import route
from kernelcup.http.api import agents
from kernelcup.http.capacity import Room
from kernelcup_harness.protocol import ProtocolError

SUBMISSIONS = "/api/v1/submissions"


@pytest.fixture(params=[1 << 20, 0], ids=["small", "large"])
def headers(request, person, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the headers of a person's JSON; the limit of large bodies is above it, or below."""
    monkeypatch.setattr(route, "LARGE_JSON_BYTES", request.param)
    return person("ada").headers | {"Content-Type": "application/json"}


def test_a_submission_is_taken(client, db, headers: dict[str, str]) -> None:
    make_board(db)
    code = f'{SUBMISSION}# "\\\u00e9\N{SNOWMAN}\n'
    body = {"leaderboard": "double", "devices": ["H100"], "code": code}
    made = client.post(SUBMISSIONS, content=json.dumps(body), headers=headers)
    assert made.status_code == 201
    shown = client.get(f"{SUBMISSIONS}/{made.json()['id']}/code", headers=headers).json()
    assert shown["files"] == {"submission.py": code}


def test_what_is_no_json_is_refused(client, headers: dict[str, str]) -> None:
    for body, text in (
        (b'{"code": ]', "JSON decode error"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"code": "\xff"}', "not UTF-8"),
    ):
        error = client.post(SUBMISSIONS, content=body, headers=headers).json()["error"]
        assert (error["code"], text in error["message"]) == ("invalid_request", True)


def test_a_large_body_is_read_in_another_thread(client, person, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    class Noted(route.Patient):
        def __init__(self, **settings: Any) -> None:
            threads.append(threading.current_thread())
            super().__init__(**settings)

    monkeypatch.setattr(route, "Patient", Noted)
    loop = client.portal.call(threading.current_thread)
    for size, read in ((100, 0), (route.LARGE_JSON_BYTES, 1)):
        client.post(SUBMISSIONS, json={"code": "x" * size}, headers=person("ada").headers)
        assert len(threads) == read
    assert loop not in threads


def test_what_a_machine_sends_is_checked_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def check(body: dict[str, Any]) -> None:
        threads.append(threading.current_thread())
        if not body:
            raise ProtocolError("outcome: expected a report")

    monkeypatch.setattr(agents, "read", check)
    app = FastAPI()
    app.state.platform = SimpleNamespace(room=Room())

    @app.post("/report")
    async def report(body: Annotated[agents.ReportIn, Depends(agents.beside(agents.ReportIn))]) -> str:
        threads.append(threading.current_thread())
        return body.outcome["text"]

    @app.exception_handler(RequestValidationError)
    async def refused(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(error.errors()[0]["loc"], status_code=422)

    with TestClient(app) as client:
        assert client.post("/report", json={"outcome": {"text": "ended"}}).json() == "ended"
        assert threads[0] is not threads[1]
        answer = client.post("/report", json={"outcome": {}})
        assert (answer.status_code, answer.json()) == (422, ["body", "outcome"])


def test_a_large_body_means_the_same() -> None:
    value = [[1, {"a": None, "b": [True, -2.5e3, "\u20ac\n"]}], {}]
    assert json.loads(json.dumps(value), cls=route.Patient) == value
