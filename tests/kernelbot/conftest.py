"""A leaderboard, a user and an admin of the existing client, and what finishes their jobs."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import make_board, make_report
from fakes import FakeClock
from kernelcup.app.queue import lifecycle
from kernelcup.domain import Leaderboard, Role
from kernelcup.engine.database import Database
from kernelcup_harness.protocol import RunReport
from popcorn_client import Exchange, PopcornAdmin, PopcornClient
from service import app, config, http, person, platform, server_url

__all__ = ["app", "config", "http", "person", "platform", "server_url"]

GOLDEN = Path(__file__).with_name("golden")
WRITE = "POPCORN_GOLDEN"
"""Set it to ``write`` to keep what is said now; look at the difference before it is committed."""

Finish = Callable[..., None]


@pytest.fixture
def board(db: Database) -> Leaderboard:
    """A leaderboard with two devices that is everybody's."""
    return make_board(db, devices=["H100", "MI300"])


@pytest.fixture
def finish(db: Database, clock: FakeClock) -> Finish:
    """Return what gives the next job its report, two seconds later."""

    def give(report: RunReport | None = None, machine: str = "secret-machine-name") -> None:
        lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100", "MI300"], now=clock())
        assert lease is not None
        lifecycle.finish(
            db,
            lease,
            report=report or make_report(),
            harness_hash="00",
            machine=machine,
            now=clock() + timedelta(seconds=2),
        )

    return give


@pytest.fixture
def client(http: httpx.Client) -> httpx.Client:
    """Somebody without an account, at a real server: the client waits and reads streams."""
    return http


@pytest.fixture
def cli(client: httpx.Client, person: Any) -> PopcornClient:
    """The client of ada."""
    return PopcornClient(client, person("ada").token)


@pytest.fixture
def admin(client: httpx.Client, person: Any) -> PopcornAdmin:
    """The client of an admin."""
    return PopcornAdmin(client, person("root", Role.ADMIN).token)


@pytest.fixture
def waiting_cli(client: httpx.Client, person: Any) -> Callable[..., PopcornClient]:
    """Return the client of ada that does something each time it waits."""

    def make(*steps: Callable[[], None], name: str = "ada") -> PopcornClient:
        left = itertools.chain(steps)
        return PopcornClient(client, person(name).token, sleep=lambda _: next(left)())

    return make


@pytest.fixture
def golden() -> Callable[[str, list[Exchange]], None]:
    """Return what compares requests and answers with those that are kept."""

    def compare(name: str, exchanges: list[Exchange]) -> None:
        said = [normalised({"request": each.request, "answer": each.answer}) for each in exchanges]
        path = GOLDEN / f"{name}.json"
        if os.environ.get(WRITE) == "write":
            path.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        assert said == json.loads(path.read_text(encoding="utf-8"))

    return compare


VOLATILE = (
    (re.compile(r"kc_[A-Za-z0-9_-]{43}"), "TOKEN"),
    (re.compile(r"(?<=boundary=)[0-9a-f]{32}"), "BOUNDARY"),
    (re.compile(r"(?<=--)[0-9a-f]{32}"), "BOUNDARY"),
)
VOLATILE_KEYS = ("elapsed_time", "code_text")


def normalised(value: Any) -> Any:
    """Return requests and answers without what differs each time."""
    if isinstance(value, dict):
        return {key: "VARIES" if key in VOLATILE_KEYS else normalised(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalised(item) for item in value]
    if isinstance(value, str):
        for pattern, word in VOLATILE:
            value = pattern.sub(word, value)
    return value
