"""A browser in front of a real service: it fails a test for any error, refused request or other host."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from competition import fill
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from builders import NOW
from database_kinds import db_url
from kernelcup.app.people import tokens
from kernelcup.engine.database import Database
from kernelcup.http import auth
from kernelcup.http.state import Platform
from service import MakePerson, Person, app, client, config, http, person, platform, server_url

__all__ = ["app", "client", "config", "db_url", "http", "person", "platform", "server_url"]

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="session")
def browsers_loop() -> Iterator[tuple[Browser, AbstractEventLoop]]:
    """Debian's browser, one for all tests of a worker, and the event loop in which Playwright talks to it."""
    if not CHROMIUM.exists():
        pytest.skip("no Chromium; scripts/system-packages chromium:chromium installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def chromium(browsers_loop: tuple[Browser, AbstractEventLoop]) -> Iterator[Browser]:
    """The browser. Only in tests that have it does Playwright's loop count as running, so others can run theirs."""
    browser, loop = browsers_loop
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def competition_file(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the competition in it, to copy: filling it takes seconds."""
    path = tmp_path_factory.mktemp("competition") / "competition.db"
    shutil.copy(sqlite_template, path)
    with Database.open(f"sqlite:///{path}") as database:
        fill(database)
    return path


@pytest.fixture
def competition(db: Database, competition_file: Path) -> None:
    """The competition, in this test's database."""
    mine = str(db.engine.url.database)
    with closing(sqlite3.connect(competition_file)) as filled, closing(sqlite3.connect(mine)) as target:
        filled.backup(target)


@dataclass
class Visitor:
    """Somebody's browser, and what went wrong in it."""

    context: BrowserContext
    url: str
    faults: list[str] = field(default_factory=list)
    expects_refusal: bool = False
    """Set while a test looks at error pages: browsers write those into their console."""

    def open(self, path: str, page: Page | None = None) -> Page:
        """Open a page of the service."""
        page = page or self.context.new_page()
        page.goto(self.url + path)
        return page

    def watch(self, page: Page) -> None:
        """Note what goes wrong in a page."""
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on(
            "console", lambda told: self._console(told.type, f"{told.text} {told.location.get('url', '')}")
        )
        page.on("request", lambda asked: self._request(asked.url))

    def _console(self, kind: str, text: str) -> None:
        is_refusal = self.expects_refusal and "Failed to load resource" in text
        if kind in ("error", "warning") and not is_refusal:
            self.faults.append(f"{kind}: {text}")

    def _request(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.url).netloc:
            self.faults.append(f"request to another host: {url}")


MakeVisitor = Callable[..., Visitor]


@pytest.fixture
def visitor(chromium: Browser, server_url: str, platform: Platform) -> Iterator[MakeVisitor]:
    """Return what opens browsers: ``visitor()``, or ``visitor(ada)`` for one in which ada is signed in.

    Options: ``width`` (1440), ``javascript`` (True).
    """
    opened: list[Visitor] = []

    def make(somebody: Person | None = None, *, width: int = 1440, javascript: bool = True) -> Visitor:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="light",
            java_script_enabled=javascript,
            locale="en-GB",
            timezone_id="Europe/Berlin",
            reduced_motion="reduce",
        )
        context.set_default_timeout(30_000)
        if somebody is not None:
            context.add_cookies(
                [{"name": auth.COOKIE, "value": session_of(platform, somebody), "url": server_url}]
            )
        each = Visitor(context=context, url=server_url)
        context.on("page", each.watch)
        opened.append(each)
        return each

    yield make
    for each in opened:
        each.context.close()
    faults = [fault for each in opened for fault in each.faults]
    assert not faults, "\n".join(faults)


@pytest.fixture
def signed_in(person: MakePerson, platform: Platform) -> Callable[..., dict[str, str]]:
    """Return what gives a person's cookies, for ``client.get(path, cookies=signed_in(ada))``."""
    return lambda somebody: {auth.COOKIE: session_of(platform, somebody)}


def session_of(platform: Platform, somebody: Person) -> str:
    """Return the secret of a new browser session."""
    assert somebody.actor.user_id is not None
    return tokens.make_session(platform.db, somebody.actor.user_id, NOW)
