"""Routes are analysed when they are asked for, those of extensions too, which may be FastAPI's own."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from starlette.testclient import TestClient

from kernelcup import extensions
from kernelcup.http.app import create_app
from kernelcup.http.route import LaterRoute
from kernelcup.http.state import Platform


def router_with(kind: type | None) -> APIRouter:
    """Return a router with a route of a kind, which has a sum."""
    router = APIRouter() if kind is None else APIRouter(route_class=kind)

    @router.get("/sum/{number}")
    def show_sum(number: int, more: int = 0) -> dict[str, int]:
        return {"sum": number + more}

    return router


@pytest.mark.parametrize("kind", [None, LaterRoute])
def test_routers_of_extensions_are_served(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, kind: type | None
) -> None:
    monkeypatch.setattr(extensions, "routers", lambda: [router_with(kind)])
    with TestClient(create_app(platform), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/sum/1?more=2").json() == {"sum": 3}
        for wrong, status in {"/sum/x": 422, "/sum/1?more=%00": 422, "/sum": 404}.items():
            assert client.get(wrong).status_code == status, wrong
        assert client.post("/sum/1").status_code == 405


def test_applications_share_routes_that_nobody_asked_for_yet(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = router_with(LaterRoute)
    (route,) = router.routes
    monkeypatch.setattr(extensions, "routers", lambda: [router])
    apps = [create_app(platform), create_app(platform)]
    assert [each.routes[-1] is route for each in apps] == [True, True]
    assert "dependant" not in vars(route)
    made = []
    for app in apps:
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            assert client.get("/sum/1").json() == {"sum": 1}
        made.append(vars(route)["dependant"])
    assert made[0] is made[1]
