"""What browsers and strange requests get: cookies, headers, addresses that no honest client sends."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import socket
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from route_rules import PREFIX, ROUTES, Route, Who
from scenes import play
from starlette.testclient import TestClient

from builders import NOW, make_board
from database_kinds import STRICTEST
from kernelcup.app.people.login_links import make_login_link
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.http import auth
from kernelcup.http.app import create_app
from kernelcup.http.pages import routes as pages
from kernelcup.http.sign_in import pages as signin
from kernelcup.http.state import Platform

pytestmark = pytest.mark.parametrize("db_url", [STRICTEST], indirect=True)

STRANGE = (
    "%00",
    "dou%00ble",
    "%ff%fe",
    "%ed%a0%80",
    "a%2Fb",
    "%2e%2e",
    "a%0d%0aX-Evil:%201",
    "9" * 40,
    str(2**64),
    str(2**31),
    str(2**53),
    str(2**62),
    str(2**63),
    "-1",
    "0",
    "1e3",
    "NaN",
    quote("١٢"),
    quote("ｄｏｕｂｌｅ"),
    "x" * 5000,
    quote("' OR 1=1 --"),
    quote("{{7*7}}"),
    quote("\u200b"),
    "%20",
    "participant%209999999999",
    str(2**31 - 1),
)


MARKS = ("\0", "a\0b", "\ud800", "\u200b")
NO_ROUTE = Route(who=Who.EVERYBODY, form={"user_code": "x"})
"""Stands for what no document of the API describes: pages, their forms, and popcorn's routes."""
NUMBERS = (2**31, 2**63, 2**64, -(2**70), 10**40)


def sampled(step: int) -> pytest.MarkDecorator:
    """Have a test take each so-manieth of its requests, and all of them in `make test-jobs`.

    Neighbours differ in one value alone, so each value meets some routes, and nearly each route some value.
    """
    whole = pytest.param(1, id="all", marks=pytest.mark.jobs)
    return pytest.mark.parametrize("step", [pytest.param(step, id="some"), whole])


ENDLESS = "/bell/live"
"""A stream that a client without sockets would read for ever; ``tests/web/test_bell_page.py`` has it."""


def routes_of(app: FastAPI | APIRouter, *, repeated: bool = False) -> list[tuple[str, str]]:
    """Return every method and address that the application serves, pages and popcorn's included.

    Args:
        repeated: Keep an address that several routes have, of which only the first is ever used.
    """
    found: list[tuple[str, str]] = []

    def walk(routes: Any, prefix: str) -> None:
        for route in routes:
            if (router := getattr(route, "original_router", None)) is not None:
                walk(router.routes, prefix + route.include_context.prefix)
            elif getattr(route, "methods", None):
                found.extend((method, prefix + route.path) for method in route.methods)

    walk(app.routes, "")
    return sorted(each for each in (found if repeated else set(found)) if each[1] != ENDLESS)


def parts_of(path: str) -> list[str]:
    """Return the names of what an address leaves open."""
    return re.findall(r"{(\w+)(?::\w+)?}", path)


def fill(path: str, values: dict[str, str]) -> str:
    """Put values into an address, as they are."""
    return re.sub(r"{(\w+)(?::\w+)?}", lambda part: values[part[1]], path)


GOOD = {
    "harness_hash": "0" * 64,
    "call": "x",
    "name": "double",
    "leaderboard": "double",
    "board": "double",
    "event": "spring",
    "question": "1",
    "form": "register",
    "device": "H100",
    "gpu": "H100",
    "mode": "test",
    "user": "ada",
    "user_id": "ada",
    "file": "reference.py",
    "language": "Python",
    "scope": "leaderboard",
    "key": "double",
    "code": "AAAA",
    "provider": "github",
    "secret": "kc_x",
    "category": "test",
    "submission_id": "2",
    "comparison_id": "2",
    "run_id": "2",
    "job_id": "2",
    "review_id": "1",
    "limit_id": "1",
    "token_id": "9999",
    "digest": "0",
    "number": "2",
    "webhook_id": "1",
    "earlier": "1",
    "case": "0",
    "path": "index",
    "reservation_id": "1",
}
"""What stands in an address where nothing strange does."""


@pytest.fixture
def scene(db, person):
    return play(db, person)


@pytest.fixture
def root(scene):
    """The headers of an admin, for our routes and for popcorn's."""
    return scene["root"].headers | {"X-Popcorn-Cli-Id": scene["root"].token}


@sampled(61)
def test_no_address_is_so_strange_that_the_server_fails(app, client, scene, root, step) -> None:
    broken = []
    tries = [
        (method, path, part, strange)
        for method, path in routes_of(app)
        for part in parts_of(path)
        for strange in STRANGE
        if not (path.endswith("/events") and strange.isdecimal())
    ]
    for method, path, part, strange in tries[::step]:
        route = ROUTES.get((method, path.removeprefix(PREFIX)), NO_ROUTE)
        address = fill(path, GOOD | {part: strange})
        answer = client.request(method, address, headers=root, json=route.json, params=route.query)
        if answer.status_code >= 500 or "x-evil" in answer.headers:
            broken.append((method, path, part, strange, answer.status_code, answer.text[:100]))
    assert not broken


@sampled(9)
def test_no_text_or_number_in_a_body_makes_the_server_fail(client, scene, root, step) -> None:
    broken = []
    tries = [
        (*at, key, strange)
        for at, route in ROUTES.items()
        if isinstance(route.json, dict) and at[0] != "DELETE" and not at[1].startswith("/auth/")
        for key in route.json
        for strange in (*MARKS, *NUMBERS, None, [], {}, [None], "x" * 100_000)
    ]
    for method, path, key, strange in tries[::step]:
        route = ROUTES[method, path]
        body = route.json | {key: [strange] if isinstance(route.json[key], list) else strange}
        headers = {**root, "Content-Type": "application/json"}
        address = PREFIX + fill(path, GOOD | route.values)
        answer = client.request(method, address, headers=headers, content=json.dumps(body))
        if answer.status_code >= 500 and answer.json()["error"]["code"] != "paused":
            broken.append((method, path, key, strange, answer.text[:100]))
    assert not broken


@sampled(31)
def test_no_query_makes_the_server_fail(app, client, scene, root, step) -> None:
    broken = []
    tries = [
        (path, parameter["name"], strange)
        for path, methods in app.openapi()["paths"].items()
        if "get" in methods and not ROUTES["GET", path.removeprefix(PREFIX)].is_stream
        for parameter in methods["get"].get("parameters", ())
        if parameter["in"] == "query"
        for strange in STRANGE
    ]
    for path, name, strange in tries[::step]:
        route = ROUTES["GET", path.removeprefix(PREFIX)]
        query = "&".join(f"{key}={value}" for key, value in route.query.items() if key != name)
        answer = client.get(f"{fill(path, GOOD | route.values)}?{query}&{name}={strange}", headers=root)
        if answer.status_code >= 500:
            broken.append((path, name, strange[:20], answer.text[:100]))
    assert not broken


# Browsers.

HERE = {"Sec-Fetch-Site": "same-origin"}
ELSEWHERE = (
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {},
)
LOOKS_AT_NO_SESSION = ("/api/v1/auth/device", "/api/v1/auth/device/token")


def use_link(browser: TestClient, db: Any, user_id: int) -> Any:
    """Sign a browser in by a one-time link."""
    path = f"/auth/link/{make_login_link(db, user_id, NOW)}"
    token = re.search(r'name="csrf_token" value="(\w+)"', browser.get(path).text)
    assert token is not None
    return browser.post(path, data={"csrf_token": token[1]}, headers=HERE, follow_redirects=False)


def cookie_of(answer: Any, name: str) -> dict[str, str]:
    """Return the attributes of a cookie that an answer sets, their names in small letters."""
    for header in answer.headers.get_list("set-cookie"):
        if header.startswith(f"{name}="):
            pairs = [part.strip().partition("=") for part in header.split(";")[1:]]
            return {key.lower(): value for key, _, value in pairs}
    raise AssertionError(f"no cookie {name}")


@pytest.mark.parametrize(("url", "secure"), [("https://cup.example.org", True), (None, False)])
def test_no_script_and_no_other_site_gets_the_session(config, db, clock, person, url, secure) -> None:
    server = dataclasses.replace(config.server, url=url)
    platform = Platform(
        db=db, config=dataclasses.replace(config, server=server), clock=clock, secret="s" * 32
    )
    with TestClient(create_app(platform), base_url=url or "http://127.0.0.1:8000") as browser:
        cookie = cookie_of(use_link(browser, db, person("ada").actor.user_id), auth.COOKIE)
    assert "httponly" in cookie
    assert cookie["samesite"].lower() == "lax"
    assert cookie["path"] == "/"
    assert "domain" not in cookie
    assert ("secure" in cookie) is secure
    assert 0 < int(cookie["max-age"]) <= 30 * 24 * 3600


@sampled(5)
def test_a_session_changes_nothing_for_another_site_wherever_it_is_sent(app, client, db, scene, step) -> None:
    assert use_link(client, db, scene["root"].actor.user_id).status_code == 303
    assert client.get("/api/v1/me").json()["name"] == "root"
    forms = {*routes_of(pages.router), *routes_of(signin.pages)}
    tries = [
        (method, path, headers)
        for method, path in routes_of(app)
        if method not in ("GET", "HEAD") and path not in LOOKS_AT_NO_SESSION
        for headers in ELSEWHERE
    ]
    for method, path, headers in tries[::step]:
        route = ROUTES.get((method, path.removeprefix(PREFIX)), NO_ROUTE)
        answer = client.request(
            method,
            fill(path, GOOD | route.values),
            headers=headers,
            json=None if route.files else route.json,
            data=route.form,
            files=route.files,
            params=route.query,
        )
        # Popcorn's routes look at no cookie.
        is_ours = route is not NO_ROUTE or (method, path) in forms
        assert answer.status_code in ((403,) if is_ours else (400, 401, 422)), (
            method,
            path,
            headers,
            answer.text,
        )
    assert client.get("/api/v1/me").json()["name"] == "root"


def test_a_token_beside_a_session_is_what_counts(client, db, scene) -> None:
    use_link(client, db, scene["root"].actor.user_id)
    answer = client.get("/api/v1/me", headers=scene["bob"].headers)
    assert answer.json()["name"] == "bob"
    assert client.get("/api/v1/me", headers={"Authorization": "Bearer kc_no"}).status_code == 401


SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
}


def check_headers(answer: Any) -> None:
    for name, value in SAFE.items():
        assert answer.headers[name] == value, (answer.request.url, name)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", answer.headers["x-request-id"])
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert "server" not in answer.headers
    assert "x-powered-by" not in answer.headers


@sampled(9)
def test_every_answer_has_the_headers_that_keep_browsers_safe(app, client, scene, root, step) -> None:
    tries = [
        (fill(path, GOOD), headers)
        for method, path in routes_of(app)
        if method == "GET" and not path.endswith("/events")
        for headers in (root, {}, {"Authorization": "Bearer no"}, {"Origin": "https://evil.example"})
    ]
    for address, headers in tries[::step]:
        check_headers(client.get(address, headers=headers))
    for address in ("/", "/nowhere", "/api/v1/nowhere", "/api/v1/submissions?limit=0"):
        check_headers(client.get(address))
    check_headers(client.post("/api/v1/submissions", content=b"x" * (17 << 20), headers=root))


def test_a_bug_has_these_headers_too(client, person, monkeypatch) -> None:
    monkeypatch.setattr("kernelcup.app.boards.boards.list_boards", lambda *_, **__: 1 / 0)
    answer = client.get("/api/v1/leaderboards")
    assert answer.status_code == 500
    check_headers(answer)
    assert answer.headers["x-request-id"] == answer.json()["error"]["request_id"]


@sampled(7)
def test_no_other_site_is_let_in_by_cors(app, client, root, step) -> None:
    asks = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    for _, path in routes_of(app)[::step]:
        answer = client.options(fill(path, GOOD), headers=asks)
        assert answer.status_code in (400, 404, 405), path
        check_headers(answer)


@sampled(11)
def test_other_methods_do_and_tell_nothing(app, client, root, step) -> None:
    methods = ("HEAD", "TRACE", "CONNECT", "PROPFIND", "X" * 100)
    tries = [(method, path) for path in sorted({path for _, path in routes_of(app)}) for method in methods]
    for method, path in tries[::step]:
        answer = client.request(method, fill(path, GOOD), headers=root | {"X-Probe": "canary"})
        assert answer.status_code < 500, (method, path)
        assert "canary" not in answer.text
        if method != "HEAD":
            assert answer.status_code in (404, 405), (method, path)


def test_an_id_of_a_request_is_taken_over_if_it_is_one(client) -> None:
    bad = ("x" * 65, "", "a b", "<script>", "a\tb", "id;level=error", "ünïcode")
    for given in ("abc-1.2_3", "x" * 64, *bad):
        answer = client.get("/livez", headers={"X-Request-Id": given.encode("latin-1")})
        assert (answer.headers["x-request-id"] == given) is (given not in bad), given
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", answer.headers["x-request-id"])


@sampled(9)
def test_no_link_is_made_of_the_name_by_which_the_server_was_asked(app, client, scene, root, step) -> None:
    others = (
        {"Host": "evil.example"},
        {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example"},
    )
    tries = [
        (path, headers)
        for method, path in routes_of(app)
        if method == "GET" and not path.endswith("/events")
        for headers in others
    ]
    for path, headers in tries[::step]:
        answer = client.get(fill(path, GOOD), headers=root | headers, follow_redirects=False)
        assert "evil.example" not in answer.text + str(answer.headers), path
    for headers in others:
        started = client.post("/api/v1/auth/device", json={"client": "test"}, headers=headers)
        assert started.json()["verification_uri"] == "http://127.0.0.1:8000/auth/device"
        body = {"leaderboard": "double", "devices": ["H100"], "code": "x = 1"}
        made = client.post("/api/v1/submissions", json=body, headers=root | headers)
        assert made.headers["location"].startswith("/api/v1/submissions/")


# Bytes that no HTTP client would send.


NO_REQUESTS = (
    b"GET /api/v1/leaderboards/%00 HTTP/1.1",
    b"GET /api/v1/leaderboards/\xff\xfe HTTP/1.1",
    b"GET /api/v1/leaderboards/\x00 HTTP/1.1",
    b"GET /api/v1/leaderboards/" + b"x" * 100_000 + b" HTTP/1.1",
    b"GET /api/v1/leaderboards?after=" + b"9" * 60_000 + b" HTTP/1.1",
    b"GET http://evil.example/api/v1/leaderboards/x HTTP/1.1",
    b"GET //evil.example/%2e%2e HTTP/1.1",
    b"GET /api/v1/leaderboards/x HTTP/1.1\r\nX-Long: " + b"x" * 200_000,
    b"GET /api/v1/leaderboards/x HTTP/1.1\r\nAuthorization: Bearer \xff\xfe",
    b"GET /api/v1/leaderboards/x HTTP/1.1\r\nCookie: kernelcup_session=\xff; kernelcup_browser=\xfe",
    b"GET /api/v1/leaderboards/x HTTP/1.1\r\nX-Request-Id: a\r\n b",
    b"GET /api/v1/leaderboards/x HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
    b"GET /api/v1/leaderboards/x HTTP/1.1\r\nContent-Length: -5",
    b"BREW /api/v1/leaderboards/x HTTP/9.9",
    b"\x16\x03\x01\x02\x00\x01\x00\x01",
)


def test_bytes_that_are_no_request_are_refused_and_the_server_goes_on(server_url) -> None:
    host, port = server_url.removeprefix("http://").split(":")
    for first_line in NO_REQUESTS:
        with socket.create_connection((host, int(port)), timeout=60) as sock:
            with contextlib.suppress(ConnectionError):  # it may hang up before all is sent
                sock.sendall(first_line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
            got = b""
            with contextlib.suppress(ConnectionError):
                while part := sock.recv(65536):
                    got += part
        assert not got or re.match(rb"HTTP/1.1 4\d\d ", got), (first_line[:100], got[:200])
        assert b"Traceback" not in got
        assert httpx.get(f"{server_url}/livez", timeout=60).status_code == 200


def test_nobody_and_no_leaderboard_gets_a_name_that_looks_like_anothers(client, db, scene) -> None:
    for name in ("ＡＤＡ", "аda", "ada\u200b", " ada", "ada\n", "ADA", "\u202eada"):
        answer = client.post("/api/v1/users", json={"name": name}, headers=scene["root"].headers)
        assert answer.status_code in (400, 409), answer.text
    for name in ("ｄｏｕｂｌｅ", "dоuble", "double\u200b", " double", "DOUBLE", "\u202edouble"):
        with pytest.raises((InvalidValue, Conflict)):
            make_board(db, name=name)


def test_no_page_has_the_address_of_another_route(app) -> None:
    every = [route for route in routes_of(app, repeated=True) if route[0] != "HEAD"]
    assert sorted(set(every)) == every
