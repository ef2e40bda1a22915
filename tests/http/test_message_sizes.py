"""No text makes an answer long or dear: each field of each route gets the largest and oddest that it may hold."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from route_rules import PREFIX, ROUTES, Route
from scenes import play

from database_kinds import content_of, replace_content
from hostile import SHAPES, Meter, things

LARGEST = 1_000_000
"""Characters where the description names no bound: the bound of a body does, or the route's own."""
LONGEST_ADDRESS = 5_000
Place = tuple[str | int, ...]


class Described:
    """The text fields of the routes, as the description of the API has them."""

    def __init__(self, described: dict[str, Any]) -> None:
        self._schemas = described["components"]["schemas"]
        self._paths = described["paths"]

    def has(self, path: str) -> bool:
        """Return whether a route is described."""
        return PREFIX + path in self._paths

    def fields(self, method: str, path: str) -> Iterator[tuple[Place, int, str]]:
        """Yield the place, the largest length and the kind of each field of a route."""
        spec = self._paths[PREFIX + path][method.lower()]
        for each in spec.get("parameters", ()):
            if each["in"] in ("path", "query"):
                yield (each["in"], each["name"]), LONGEST_ADDRESS, "text"
        for kind, body in spec.get("requestBody", {}).get("content", {}).items():
            place = "json" if kind == "application/json" else "form"
            yield from self._inside(body["schema"], (place,))

    def _inside(self, schema: Any, place: Place, depth: int = 0) -> Iterator[tuple[Place, int, str]]:
        if "$ref" in schema:
            yield from self._inside(self._schemas[schema["$ref"].rpartition("/")[2]], place, depth)
            return
        for part in schema.get("anyOf", ()):
            yield from self._inside(part, place, depth)
        match schema.get("type"):
            case "string" if "enum" not in schema:
                yield place, schema.get("maxLength", LARGEST), "text"
            case "array":
                most = schema.get("maxItems", 0)
                longest = schema["items"].get("maxLength", LARGEST)
                yield place, min(longest, LARGEST // max(most, 1)), f"list:{most or 1}"
            case "object":
                yield place, LARGEST, "object"
                for name, part in schema.get("properties", {}).items():
                    yield from self._inside(part, (*place, name), depth + 1)
            case _:
                yield place, 400, "text"


def odd_values(size: int, kind: str) -> Iterator[tuple[str, Any]]:
    """Yield what is put into a field."""
    count = int(kind.partition(":")[2] or 0)
    for name, shape in SHAPES.items():
        text = shape(size)
        yield name, [text] * count if count else text
    if count:
        yield "different texts", [f"n{number}"[:size] for number in range(count)]


def requests_of(
    route: Route, method: str, path: str, fields: list[tuple[Place, int, str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests with one hostile field each: a label, and what the client is called with."""
    for place, size, kind in fields:
        values = list(odd_values(size, kind)) if kind != "object" else []
        if place[0] == "json":
            values += list(things(30_000))
        for name, value in values:
            given: dict[str, Any] = {"params": dict(route.query)}
            address = dict(route.values)
            if place[0] == "path":
                address[str(place[1])] = value
            elif place[0] == "query":
                given["params"][place[1]] = value
            if place[0] == "json":
                body = copy.deepcopy(route.json or {})
                given["content"] = json.dumps(put(body, place[1:], value)).encode()
            elif route.json is not None:
                given["json"] = route.json
            if place[0] == "form" and place[1:] != ("settings",):
                continue
            if route.form is not None or route.files is not None or place[0] == "form":
                given["data"] = {**(route.form or {}), **({"settings": value} if place[0] == "form" else {})}
                given["files"] = route.files
            where = PREFIX + path.format(**{key: quote(each, safe="") for key, each in address.items()})
            yield f"{method} {path} {'.'.join(map(str, place))} {name}", {"url": where, **given}


def put(body: Any, place: Place, value: Any) -> Any:
    """Return a body with a value in it."""
    if not place:
        return value
    inner = body.get(place[0]) if isinstance(body, dict) else None
    return {**(body if isinstance(body, dict) else {}), place[0]: put(inner, place[1:], value)}


def send_all(client: Any, headers: dict[str, str], requests: Any, meter: Meter, after: Any) -> None:
    """Send requests, each with its method and label; ``after`` puts back what one of them changed."""
    for method, label, given in requests:
        kind = {"Content-Type": "application/json"} if "content" in given else {}
        answer = meter.check(label, partial(client.request, method, headers=headers | kind, **given))
        if answer.status_code < 400 and method != "GET":
            after()
    assert not meter.faults, "\n".join(meter.faults)


@pytest.mark.jobs
@pytest.mark.parametrize("db_url", ["sqlite"], indirect=True)
def test_no_field_makes_an_answer_long_or_dear(app, client, db, person) -> None:
    root = play(db, person)["root"]
    described, kept, meter = Described(app.openapi()), content_of(db.engine), Meter()
    requests = (
        (method, label, given)
        for (method, path), route in ROUTES.items()
        if not route.is_stream and described.has(path)
        for label, given in requests_of(route, method, path, list(described.fields(method, path)))
    )
    send_all(client, root.headers, requests, meter, lambda: replace_content(db.engine, kept))
    assert meter.sent > 5000


SAMPLE = (
    ("POST", "/courses/closed/members/import", {"csv": SHAPES["columns"](100_000)}),
    ("POST", "/courses/closed/members/import", {"csv": SHAPES["rows"](100_000)}),
    ("POST", "/sign-in-links", {"names": [f"n{number}" for number in range(1000)]}),
    ("PATCH", "/leaderboards/double", {"deadline": SHAPES["turned"](20_000)}),
    ("PUT", "/courses/closed/rules", {"rules": SHAPES["lines"](5000)}),
    ("POST", "/submissions", {"profile": dict.fromkeys(SHAPES["names"](20_000).split(), 1), "code": "x"}),
)


@pytest.mark.parametrize("db_url", ["sqlite"], indirect=True)
def test_a_sample_of_fields_makes_no_answer_long_or_dear(client, db, person) -> None:
    root, meter = play(db, person)["root"], Meter()
    requests = [
        (method, f"{method} {path}", {"url": PREFIX + path, "json": body}) for method, path, body in SAMPLE
    ]
    send_all(client, root.headers, requests, meter, lambda: None)
    assert meter.sent == len(SAMPLE)
