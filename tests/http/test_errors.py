"""Errors over HTTP: each says what to do, and one thing is refused in one way."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
from scenes import play

from kernelcup import errors
from kernelcup.domain import Role, Scope
from kernelcup.http.errors import CODES
from kernelcup.next_steps import NEXT_STEPS

API = "/api/v1"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def scene(stored) -> dict[str, Any]:
    return stored(play)


def test_every_code_of_an_error_has_a_next_step() -> None:
    module = importlib.import_module(errors.__name__)
    kinds = [each for _, each in inspect.getmembers(module, inspect.isclass)]
    ours = {each.code for each in kinds if issubclass(each, errors.UserError)} - {errors.UserError.code}
    assert ours | set(CODES.values()) <= set(NEXT_STEPS)


def test_an_error_says_what_to_do_next(client, person) -> None:
    ada = person("ada").headers
    for method, path, headers, code in (
        ("GET", "/leaderboards/nothing", ada, "not_found"),
        ("GET", "/nothing", ada, "not_found"),
        ("PUT", "/submissions", ada, "method_not_allowed"),
        ("GET", "/submissions?limit=x", ada, "invalid_request"),
        ("POST", "/submissions", ada, "invalid_request"),
        ("POST", "/submissions", {}, "sign_in_needed"),
        ("GET", "/users", ada, "forbidden"),
    ):
        error = client.request(method, API + path, headers=headers).json()["error"]
        assert (error["code"], error["next"]) == (code, [NEXT_STEPS[code]])


def test_a_request_that_is_cut_off_says_what_to_do_next(client) -> None:
    answer = client.post(f"{API}/auth/device", json={"client": "x" * 100_000})
    assert answer.json()["error"]["next"] == [NEXT_STEPS["file_too_large"]]


def test_a_text_that_is_too_large_is_refused_in_one_way(client, scene) -> None:
    for size in ((1 << 20) + 1, 1_050_000, 1_200_000, 3_900_000, 5_000_000):
        sent = {"code": "#" * size, "leaderboard": "double", "devices": ["H100"]}
        answer = client.post(f"{API}/submissions", json=sent, headers=scene["ada"].headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large"), size


def test_a_body_that_cannot_be_read_names_its_place(client, person) -> None:
    headers = {**person("ada").headers, **JSON}
    error = client.post(f"{API}/submissions", content=b'{"code": "\xff"}', headers=headers).json()["error"]
    assert error["details"] == [{"where": "body.10", "text": "The body is not UTF-8 text."}]


def test_an_unknown_key_of_the_address_is_refused_by_name(client) -> None:
    answer = client.get(f"{API}/leaderboards", params={"limit": 5, "lmit": 5})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid_request")
    assert error["details"] == [{"where": "query.lmit", "text": "is unknown; known here: after, limit"}]


def test_an_unknown_key_is_refused_where_something_changes(client, person) -> None:
    answer = client.post(f"{API}/submissions?dry_run=1", json={"code": "x"}, headers=person("ada").headers)
    assert answer.json()["error"]["details"] == [
        {"where": "query.dry_run", "text": "is unknown; this address takes none"}
    ]


def test_who_asks_is_known_before_an_unknown_key_is_refused(client) -> None:
    answer = client.get(f"{API}/leaderboards?foo=1", headers={"Authorization": "Bearer kc_nothing"})
    assert answer.status_code == 401


def test_the_existing_client_may_send_any_key(client) -> None:
    assert client.get("/leaderboards", params={"foo": "1"}).status_code == 200


def test_a_participant_is_not_sent_for_a_scope_that_they_cannot_have(client, scene) -> None:
    for method, path in (("PATCH", ""), ("GET", "/members"), ("GET", "/invites")):
        json = {} if method == "PATCH" else None
        answer = client.request(
            method, f"{API}/leaderboards/double{path}", json=json, headers=scene["bob"].headers
        )
        assert answer.json()["error"]["code"] == "forbidden", path
        assert "managed by grace" in answer.json()["error"]["message"]


def test_a_creator_whose_token_lacks_the_scope_is_told_which(client, scene, person) -> None:
    weak = person("grace", Role.CREATOR, scopes=frozenset({Scope.READ}))
    error = client.patch(f"{API}/leaderboards/double", json={}, headers=weak.headers).json()["error"]
    assert (error["code"], "'manage'" in error["message"]) == ("scope_missing", True)


def test_the_description_says_how_to_sign_in(client) -> None:
    described = client.get(f"{API}/openapi.json").json()
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    boards = described["paths"][f"{API}/leaderboards"]
    assert boards["post"]["security"] == [{"token": []}]
    assert boards["get"]["security"] == [{}, {"token": []}]
    assert described["paths"][f"{API}/auth/device"]["post"]["security"] == []
