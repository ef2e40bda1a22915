"""Scenes for tests of the routes; the service itself is in ``tests/service.py``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scenes import Fill, Scenes

from database_kinds import db_url
from kernelcup.engine.database import Database
from service import MakePerson, Person, app, client, config, http, person, platform, server_url

__all__ = ["app", "client", "config", "db_url", "http", "person", "platform", "server_url"]


@pytest.fixture(scope="session")
def scenes() -> Scenes:
    """What tests of this worker have filled databases with."""
    return Scenes()


@pytest.fixture
def stored(scenes: Scenes, db: Database, person: MakePerson) -> Callable[[Fill], dict[str, Person]]:
    """Return what fills the database, from a copy if it can, and returns the people in it by name."""
    return lambda fill: scenes.play(fill, db, person)
