"""The API against its own description: whatever is sent, nobody gets a 5xx or an undescribed answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from route_rules import PREFIX, ROUTES
from scenes import play
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from database_kinds import STRICTEST
from properties import examples

pytestmark = pytest.mark.parametrize("db_url", [STRICTEST], indirect=True)

CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = examples(2)
ORDER = ("GET", "POST", "PATCH", "PUT", "DELETE")
"""So that what the first ones look at is still there."""


@pytest.fixture
def scene(db, person):
    return play(db, person)


def operations_of(app: Any) -> list[Any]:
    """Return all operations that are described, those that only look first."""
    schema = schemathesis.openapi.from_dict(app.openapi())
    found = [each.ok() for each in schema.get_all_operations()]
    return sorted(found, key=lambda each: (ORDER.index(each.method.upper()), each.path))


def problem_of(case: Any, answer: Any) -> str | None:
    """Return what is wrong with an answer."""
    if answer.status_code >= 400:
        error = answer.json().get("error", {})
        if not (error.get("code") and error.get("message") and error.get("request_id")):
            return f"no error of ours: {answer.text[:200]}"
        if answer.status_code >= 500 and error["code"] != "paused":
            return f"{answer.status_code}: {answer.text[:200]}"
    try:
        case.validate_response(answer, checks=CHECKS)
    except FailureGroup as found:
        return "; ".join(str(each) for each in found.exceptions)[:600]
    return None


def try_operation(
    operation: Any, send: Callable[[Any], Any], problems: list[str], values: dict[str, str] | None
) -> None:
    """Send what the description allows, with addresses of things that are there where values are given."""

    @seed(4)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy() | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def attempt(case: Any) -> None:
        if values is not None:
            case.path_parameters = {**case.path_parameters, **values}
        answer = send(case)
        if (problem := problem_of(case, answer)) is not None:
            problems.append(f"{operation.label}: {problem}")

    attempt()


@pytest.mark.parametrize(
    ("who", "step"),
    [
        ("root", 29),
        *(pytest.param(who, 1, marks=pytest.mark.jobs) for who in ("nobody", "bob", "grace", "root")),
    ],
)
def test_whatever_is_sent_the_answer_is_as_described(app, client: TestClient, scene, who, step) -> None:
    problems: list[str] = []
    headers = scene[who].headers if who != "nobody" else {}

    def send(case: Any) -> Any:
        request = requests.Request(**case.as_transport_kwargs(base_url=str(client.base_url))).prepare()
        given = {
            key.encode(): value.encode("utf-8") if isinstance(value, str) else value
            for key, value in request.headers.items()
        }
        # A generated `Authorization` would be somebody else.
        mine = {key.encode(): value.encode() for key, value in headers.items()}
        sent = {key: value for key, value in given.items() if key.lower() != b"authorization"} | mine
        return client.request(request.method or "", request.url or "", content=request.body, headers=sent)

    for operation in operations_of(app)[::step]:
        key = operation.method.upper(), operation.path.removeprefix(PREFIX)
        if ROUTES[key].is_stream or key == ("DELETE", "/tokens/current"):
            continue
        try_operation(operation, send, problems, None)
        if ROUTES[key].values:
            try_operation(operation, send, problems, ROUTES[key].values)
    assert not problems, "\n".join(sorted(set(problems)))
