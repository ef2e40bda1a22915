"""The addresses at the root swallow no other, and their errors have the one shape."""

from __future__ import annotations

import re

import pytest
from starlette.routing import Match

from builders import SUBMISSION, make_board
from kernelcup.http.middleware import LARGEST_BODY_BYTES
from kernelcup.names import RESERVED_NAMES
from kernelcup_harness.protocol import Mode
from kernelcup_kernelbot.popcorn import streaming, submissions

FILE = {"file": ("kernel.py", SUBMISSION.encode())}


def test_an_unknown_address_is_not_found_in_our_shape(client) -> None:
    paths = ["/nothing", "/a/b", "/a/b/c", "/a/b/tests", "/a/b/c/test", "/a//test", "/api/v1/nothing"]
    asked = [("POST", path) for path in paths] + [(method, "/a/b/c") for method in ("GET", "PUT", "DELETE")]
    for method, path in asked:
        found = client.request(method, path)
        assert (found.status_code, found.json()["error"]["code"]) == (404, "not_found")


def test_no_address_of_ours_is_taken_for_a_leaderboard() -> None:
    assert streams("/double/v1/test")
    assert streams("/apis/v1/TEST")
    taken = [name for name in {*RESERVED_NAMES, "API"} for mode in Mode if streams(f"/{name}/v1/{mode}")]
    assert taken == []


def streams(path) -> bool:
    """Tell whether an address is the one that begins with the name of a leaderboard."""
    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    return any(route.matches(scope)[0] is Match.FULL for route in streaming.router.routes)


@pytest.mark.parametrize("stride", [20, pytest.param(1, marks=pytest.mark.jobs)])
def test_no_address_of_the_api_is_caught(app, client, stride) -> None:
    paths = [path for path in app.openapi()["paths"] if path.startswith("/api/")]
    assert len(paths) > 20
    for path in paths[::stride]:
        found = client.post(re.sub(r"\{[^}]*\}", "1", path), files=FILE)
        assert "detail" not in found.json() if found.headers["content-type"] == "application/json" else True


@pytest.mark.jobs
def test_a_leaderboard_may_have_the_name_of_a_mode(db, client, person) -> None:
    make_board(db, name="test")
    headers = {"X-Popcorn-Cli-Id": person("ada").token}
    assert client.post("/submission/test/H100/test", headers=headers, files=FILE).status_code == 202
    assert client.get("/gpus/test").json() == ["H100"]


@pytest.mark.jobs
def test_a_wrong_method_is_refused_in_the_one_shape(board, client) -> None:
    assert client.get("/submission/double/H100/test").json() == {"detail": "Method Not Allowed"}


def test_a_request_that_is_too_large_is_refused_in_the_one_shape(board, client, person) -> None:
    headers = {"X-Popcorn-Cli-Id": person("ada").token}
    files = {"file": ("kernel.py", b"#" * (LARGEST_BODY_BYTES + 1))}
    found = client.post("/submission/double/H100/test", headers=headers, files=files)
    assert found.status_code == 413
    assert found.json() == {"detail": f"The request is too large: {LARGEST_BODY_BYTES:,} bytes are allowed."}


def test_a_bug_is_told_without_its_cause(board, client, person, monkeypatch) -> None:
    def burst(*_args, **_kwargs):
        raise RuntimeError("secret-host:5432")

    monkeypatch.setattr(submissions.service, "list_views", burst)
    headers = {"X-Popcorn-Cli-Id": person("ada").token, "X-Request-Id": "req-7"}
    found = client.get("/user/submissions", headers=headers)
    assert found.status_code == 500
    assert found.json() == {
        "detail": "This is a bug in KernelCup, not yours; please report it with the request's id (req-7)."
    }
