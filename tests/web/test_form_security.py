"""Every form of every page, sent by another site, without its token, and by nobody."""

from __future__ import annotations

import re
from itertools import cycle

import pytest
from fastapi import APIRouter

from builders import make_board
from kernelcup.domain import Role
from kernelcup.http.pages import routes
from kernelcup.http.sign_in import pages

HERE = {"Origin": "http://127.0.0.1:8000"}
HTML = {"Accept": "text/html"}
VALUES = {
    "name": "double",
    "device": "H100",
    "token_id": "1",
    "review_id": "1",
    "limit_id": "1",
    "job_id": "1",
}


def forms_of(router: APIRouter, method: str = "POST") -> list[str]:
    """Return the addresses to which forms are posted, or others, with something in their places."""
    found: set[str] = set()

    def walk(some: list[object], prefix: str) -> None:
        for route in some:
            if (inner := getattr(route, "original_router", None)) is not None:
                walk(inner.routes, prefix + route.include_context.prefix)
            elif method in (getattr(route, "methods", None) or ()):
                found.add(
                    re.sub(r"{(\w+)(?::\w+)?}", lambda part: VALUES.get(part[1], "1"), prefix + route.path)
                )

    walk(router.routes, "")
    return sorted(found)


FORMS = forms_of(routes.router)
SIGN_IN_FORMS = forms_of(pages.pages)


@pytest.fixture
def root(client, person, signed_in, db):
    """An admin who is signed in."""
    make_board(db)
    somebody = person("root", Role.ADMIN)
    client.cookies.update(signed_in(somebody))
    return somebody


def test_there_are_forms_to_look_at() -> None:
    assert len(FORMS) > 30
    assert "/tokens" in FORMS
    assert "/admin/boards/double/delete" in FORMS
    assert SIGN_IN_FORMS == ["/auth/device", "/auth/join", "/auth/link/1", "/auth/logout"]


def test_forms_without_their_token_are_refused(client, root) -> None:
    """With none and with a wrong one of their page: ``test_every_form``."""
    for path in FORMS + SIGN_IN_FORMS:
        answer = client.post(path, data={"csrf_token": "0" * 32}, headers=HERE)
        assert answer.status_code == 403, path


def test_forms_of_another_site_are_refused_even_with_the_token(client, root) -> None:
    found = re.search(r'name="csrf_token" value="(\w+)"', client.get("/account").text)
    assert found is not None
    data = {"csrf_token": found[1], "user_code": "x"}
    others = cycle(({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {}))
    for path, headers in zip(FORMS + SIGN_IN_FORMS, others, strict=False):
        assert client.post(path, data=data, headers=headers).status_code == 403, (path, headers)


def test_forms_with_a_bearer_token_instead_of_a_session_are_refused(client, root) -> None:
    client.cookies.clear()
    for path in FORMS:
        assert client.post(path, headers=HERE | root.headers).status_code == 403, path
        assert client.post(path, headers=HERE).status_code == 401, path


def test_a_nul_in_a_form_is_refused(client, root) -> None:
    found = re.search(r'name="csrf_token" value="(\w+)"', client.get("/account").text)
    assert found is not None
    data = {"csrf_token": found[1], "name": "a\0b"}
    assert client.post("/account/name", data=data, headers=HERE | HTML).status_code == 422
