"""What people ask for most costs few statements in one transaction, and a page is one state of the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from builders import SUBMISSION, make_board, make_report
from fakes import FakeClock
from hand_judging import Judging
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals
from kernelcup.engine.database import Database
from service import MakePerson, Person, app, client, config, person, platform

__all__ = ["app", "client", "config", "person", "platform"]

PAGES = {
    "/b/double": (14, 26),
    "/s/2": (13, 21),
    "/api/v1/leaderboards/double/standings/H100": (8, 9),
}
"""The statements for a reader without an account, and for the second of the ranking; SQLite's BEGIN is one.

A leaderboard's page says what stands in the way of a submission: pauses, connected machines, and a ban of the reader.
"""


@dataclass
class Count:
    """What a database was asked."""

    statements: list[str] = field(default_factory=list)
    transactions: int = 0


@contextmanager
def counted(db: Database) -> Iterator[Count]:
    """Count the statements and the transactions of a block."""
    count = Count()

    def execute(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        count.statements.append(statement)

    def begin(_connection: object) -> None:
        count.transactions += 1

    event.listen(db.engine, "before_cursor_execute", execute)
    event.listen(db.engine, "begin", begin)
    yield count
    event.remove(db.engine, "before_cursor_execute", execute)
    event.remove(db.engine, "begin", begin)


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    """A leaderboard on which five people have results."""
    make_board(db)
    judging = Judging(db, clock)
    for number, user in enumerate(("ada", "bob", "eve", "ken", "joe")):
        judging.judge(1000.0 + 100 * number, user)
    return judging


@pytest.fixture
def bob(judging: Judging, person: MakePerson, client: TestClient) -> Person:
    """The second of the ranking, whose token was used a moment ago."""
    bob = person("bob")
    assert client.get("/api/v1/me", headers=bob.headers).status_code == 200
    return bob


@pytest.mark.parametrize("path", PAGES)
def test_a_page_reads_in_one_transaction(db, bob, client, path) -> None:
    for headers, most in zip(({}, bob.headers), PAGES[path], strict=True):
        client.get(path, headers=headers)  # some of what never changes is cached
        with counted(db) as count:
            assert client.get(path, headers=headers).status_code == 200
        assert count.transactions == 1
        assert len(count.statements) <= most, "\n".join(count.statements)


@pytest.mark.jobs
def test_a_profile_costs_the_same_for_many_rankings(judging, bob, client) -> None:
    costs = []
    for name in ("", "double-2"):
        if name:
            make_board(judging.db, name=name)
            judging.judge(1000.0, "bob", board=name)
        for headers in ({}, bob.headers):
            client.get("/u/bob", headers=headers)  # the ranks are cached
            with counted(judging.db) as count:
                assert client.get("/u/bob", headers=headers).text.count("/b/double") > len(costs) / 2
            assert count.transactions == 1
            costs.append(len(count.statements))
    assert costs[0::2] == costs[:1] * 2
    assert costs[1::2] == costs[1:2] * 2


def test_a_submission_is_stored_in_two_transactions_one_of_them_for_who_sends_it(db, bob, client) -> None:
    sent = {"leaderboard": "double", "code": SUBMISSION, "file_name": "k.py", "mode": "leaderboard"}
    with counted(db) as count:
        assert client.post("/api/v1/submissions", headers=bob.headers, json=sent).status_code == 201
    assert count.transactions == 2
    assert len(count.statements) <= 12, "\n".join(count.statements)


def test_what_changes_while_a_page_is_made_is_not_seen_by_half(judging, client, monkeypatch) -> None:
    show, seen = finals.show, []

    def late(*args: object, **names: object) -> object:
        other = threading.Thread(target=judging.judge, args=(500.0, "zoe"))  # a context of its own
        other.start()
        other.join()
        seen.append(dict(judging.ranking()))
        return show(*args, **names)

    monkeypatch.setattr(finals, "show", late)
    page = client.get("/b/double")
    monkeypatch.undo()
    assert page.status_code == 200
    assert "zoe" not in page.text
    assert [set(each) for each in seen] == [{"ada", "bob", "eve", "ken", "joe"}]
    assert "zoe" in client.get("/b/double").text


def test_what_a_request_writes_it_reads(judging) -> None:
    with judging.db.view():
        assert judging.ranking()[0] == ("ada", 1000)
        judging.judge(500.0, "zoe")
        assert judging.ranking()[0] == ("zoe", 500)


def test_a_result_is_stored_in_one_transaction(judging) -> None:
    judging.submit("bob")
    lease = judging.claim()
    with counted(judging.db) as count:
        values = {
            "report": make_report([900.0]),
            "harness_hash": "",
            "machine": "box",
            "now": judging.clock(),
        }
        lifecycle.finish(judging.db, lease, **values)
    assert count.transactions == 1
    assert len(count.statements) <= 20, "\n".join(count.statements)
    assert judging.ranking()[0] == ("bob", 900)
