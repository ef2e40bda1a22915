"""Every route, tried as nobody, as others, as the author, as the creator and as an admin."""

from __future__ import annotations

import dataclasses

import pytest
from route_rules import PREFIX, ROUTES, Route, Who

from builders import NOW, SUBMISSION, make_board, make_report, make_submission, make_task
from kernelcup.app.courses import membership
from kernelcup.app.events import registration
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import comparisons, reviews
from kernelcup.app.rules import limits, pauses
from kernelcup.domain import OPERATOR, Role, Scope, Visibility

PEOPLE = ("nobody", "bob", "eve", "ada", "grace", "root")
"""A stranger, a participant, another leaderboard's creator, the author, the creator, an admin."""

ALLOWED = {
    Who.EVERYBODY: set(PEOPLE),
    Who.SIGNED_IN: set(PEOPLE) - {"nobody"},
    Who.PERSON: set(PEOPLE) - {"nobody"},
    Who.AUTHOR: {"ada", "grace", "root"},
    Who.OUTCOME: {"ada", "grace", "root"},
    Who.CREATOR: {"eve", "grace", "root"},
    Who.MANAGER: {"grace", "root"},
    Who.COURSE: {"ada", "grace", "root"},
    Who.TEACHER: {"grace", "root"},
    Who.ORGANISER: {"grace", "root"},
    Who.ADMIN: {"root"},
    Who.BOT: set(),
}


@pytest.fixture
def scene(stored):
    return stored(play)


def play(db, person):
    """Make a leaderboard with a judged and a waiting submission by ada, and all the people."""
    people = {
        "bob": person("bob"),
        "eve": person("eve", Role.CREATOR),
        "ada": person("ada"),
        "grace": person("grace", Role.CREATOR),
        "root": person("root", Role.ADMIN),
    }
    person("hal")
    make_board(db, task=make_task(templates={"Python": SUBMISSION}), event="spring")
    make_submission(db)
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)
    lifecycle.finish(db, lease, report=make_report(), harness_hash="f", machine="m", now=NOW)
    make_submission(db)
    limits.add_limit(db, OPERATOR, text="1000/hour", now=NOW)
    return people


def send(client, people, who: str, method: str, path: str, route: Route):
    address = PREFIX + path.format(**route.values)
    headers = people[who].headers if who in people else {}
    given = {"params": route.query, "headers": headers}
    if route.json is not None:
        given["json"] = route.json
    if route.form is not None:
        given["data"] = route.form
    if route.files is not None:
        given["files"] = [(name, (file, content or OLD_FORM)) for name, (file, content) in route.files]
    return client.request(method, address, **given)


OLD_FORM = b"""\
import torch


def generate_input() -> torch.Tensor:
    return torch.zeros(4)


def ref_kernel(data):
    return data


def check_implementation(custom_output, ref_output) -> bool:
    return torch.allclose(custom_output, ref_output)
"""


def needs_something(path: str) -> bool:
    """Return whether ``prepare`` makes what a route looks at."""
    parts = ("/reviews/", "/events/{event}/registration", "/events/{event}/teams", "/compare/", "/courses/")
    return any(part in path for part in parts)


def prepare(db, method: str, path: str) -> None:
    """See to it that what a route ends or decides is there."""
    if "/reviews/" in path:
        reviews.quarantine(db, OPERATOR, 1, reason="a test", evidence={}, now=NOW)
    if path == "/events/{event}/registration" or path.startswith("/events/{event}/teams"):
        for name in ("bob", "eve", "ada", "grace", "root"):
            registration.register(db, actor_of(db, name), "spring", now=NOW)
    if path == "/compare/{comparison_id}":
        comparisons.start(db, actor_of(db, "ada"), 1, 2, now=NOW)
    if path.startswith("/courses/"):
        make_board(db, name="closed", visibility=Visibility.CLOSED)
        membership.add_member(db, OPERATOR, "closed", "ada", now=NOW)
    if method == "DELETE" and path.startswith("/pauses/"):
        scope, key = ("service", "") if path.endswith("service") else ("leaderboard", "double")
        pauses.pause(db, OPERATOR, scope=scope, key=key, reason="a test", now=NOW)


def check(client, scene, method: str, path: str) -> None:
    """Try a route as everybody: the least rights first, as what is refused must have had no effect."""
    route = ROUTES[method, path]
    allowed = ALLOWED[route.who]
    answers = {}
    for who in PEOPLE:
        if route.who is Who.PERSON and who != "nobody":
            continue  # their tokens may not; a session is tried in test_signin
        answer = send(client, scene, who, method, path, route)
        answers[who] = answer.status_code
        assert answer.status_code < 500, (path, who, answer.text)
        if who not in allowed:
            assert answer.status_code in (401, 403, 404), (path, who, answer.text)
            assert answer.json()["error"]["code"]
        else:
            assert answer.status_code not in (401, 403), (path, who, answer.text)
    if route.who is not Who.PERSON:
        first = next((who for who in PEOPLE if who in allowed), "nobody")
        assert answers[first] == route.status, (path, answers)


ALONE = [each for each in ROUTES if each[0] != "GET" or needs_something(each[1])]
"""The others change nothing, so one database is enough for them."""


@pytest.mark.parametrize(("method", "path"), ALONE, ids=lambda part: str(part))
def test_a_route_is_for_those_who_may(client, scene, db, method, path) -> None:
    prepare(db, method, path)
    check(client, scene, method, path)


@pytest.mark.dear("some seventy routes, each tried by six people")
def test_a_route_that_only_looks_is_for_those_who_may(client, scene) -> None:
    for method, path in ROUTES:
        if (method, path) not in ALONE:
            check(client, scene, method, path)


def test_every_route_says_for_whom_it_is(app) -> None:
    there = {
        (method.upper(), path.removeprefix(PREFIX))
        for path, methods in app.openapi()["paths"].items()
        if path.startswith(PREFIX)
        for method in methods
    }
    assert there == set(ROUTES)


def test_a_token_that_may_only_read_changes_nothing(client, scene, person, db) -> None:
    prepare(db, "POST", "/courses/{name}")
    reader = {"root": person("reader", Role.ADMIN, scopes=frozenset({Scope.READ}))}
    for (method, path), route in ROUTES.items():
        if method == "GET" or path.startswith("/auth/"):
            continue  # it changes nothing
        if path in ("/tokens/current", "/tokens/{token_id}"):
            continue  # one may always give a token up
        answer = send(client, reader, "root", method, path, route)
        if path in ("/invites/{code}", "/reviews/{review_id}/decision"):
            assert answer.status_code == 404, (method, path, answer.text)  # there is none
        else:
            assert answer.status_code == 403, (method, path, answer.text)
            assert answer.json()["error"]["code"] == "scope_missing"


def test_a_token_that_is_of_no_use_is_refused_everywhere(client, scene) -> None:
    eve = dataclasses.replace(scene["eve"], token="kc_" + "x" * 43)
    for (method, path), route in ROUTES.items():
        if path.startswith("/auth/") or path in ("/devices", "/queue", "/status"):
            continue  # it does not matter who asks
        answer = send(client, {"eve": eve}, "eve", method, path, route)
        assert answer.status_code == 401, (method, path, answer.text)
