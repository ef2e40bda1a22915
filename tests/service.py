"""A service with its people, in this process or behind a socket: fixtures of `tests/http` and `tests/web`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from builders import NOW, make_actor, make_device
from fakes import FakeClock
from kernelcup.app.access import HERE
from kernelcup.app.people.tokens import create_token
from kernelcup.client.core import trusted
from kernelcup.config.settings import Config
from kernelcup.domain import Actor, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.http.app import create_app
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.http.state import Platform

SECRET = "a-secret-that-signs-the-cookies-of-tests"


@pytest.fixture
def config(db_url: str, tmp_path: Path) -> Config:
    """A configuration with two devices of a fake launcher."""
    return Config(
        file=None,
        data_dir=tmp_path / "data",
        runtime_dir=tmp_path / "run",
        database_url=db_url,
        configured_devices=(make_device(), make_device(name="MI300")),
        environ={},
        sandbox_required=True,
        sandbox_environment=(),
    )


@pytest.fixture
def platform(db: Database, config: Config, clock: FakeClock) -> Platform:
    """The parts of a service."""
    return Platform(db=db, config=config, clock=clock, secret=SECRET)


@pytest.fixture
def app(platform: Platform) -> FastAPI:
    """The application."""
    return create_app(platform)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """Somebody without an account. A bug in the application is an answer, as for everybody."""
    with TestClient(app, raise_server_exceptions=False, base_url="http://127.0.0.1:8000") as each:
        yield each


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody with an account and a token."""

    actor: Actor
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """Return what their requests carry."""
        return {"Authorization": f"Bearer {self.token}"}


MakePerson = Callable[..., Person]


@pytest.fixture
def person(db: Database) -> MakePerson:
    """Return what makes people: by default participants whose token has all scopes of their role."""

    def make(name: str, role: Role = Role.PARTICIPANT, **token: Any) -> Person:
        actor = make_actor(db, name, role=role)
        wanted: dict[str, Any] = {"name": "test", "scopes": allowed_scopes(role), "now": NOW}
        secret = create_token(db, actor, entry=HERE, **(wanted | token)).secret
        return Person(actor=actor, token=secret)

    return make


def allowed_scopes(role: Role) -> frozenset[Scope]:
    """Return all scopes that somebody's tokens may have."""
    scopes = {Scope.READ, Scope.SUBMIT}
    if role in (Role.CREATOR, Role.ADMIN):
        scopes |= {each for each in Scope if each.value in ("inspect", "manage")}
    if role is Role.ADMIN:
        scopes |= {Scope.ADMIN, Scope.ACT}
    return frozenset(scopes)


@pytest.fixture
def server_url(platform: Platform) -> Iterator[str]:
    """The address of a real web server: for streams, and for clients that need a socket."""
    sock = listen("127.0.0.1", 0)
    server = WebServer(platform, sock)
    server.wait_until_ready()
    yield url_of(sock)
    server.stop()
    sock.close()


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    """A client of the real web server."""
    # The first request to a route analyses it, and a busy machine takes its time.
    with httpx.Client(base_url=server_url, verify=trusted(), timeout=60) as each:
        yield each
