"""A week side by side: what is submitted to KernelBot is judged here too, and both are compared."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from side_by_side import ADA, BOB, running_kernelbot, submit
from sqlalchemy import Connection, select, text

from builders import NOW, make_board, make_report
from database_kinds import POSTGRES
from kernelcup.app.news.stream import addressed, items
from kernelcup.client.transport import Client
from kernelcup.domain import NOBODY, Role, Visibility
from kernelcup.errors import Forbidden, InvalidValue
from kernelcup.tables import SubmissionRow, UserRow
from kernelcup_harness.protocol import Verdict
from kernelcup_kernelbot.comparison import compare
from kernelcup_kernelbot.following import Follower, Journal
from kernelcup_kernelbot.importing.source import opened

pytestmark = [
    pytest.mark.skipif(POSTGRES not in os.environ, reason="KernelBot's database is PostgreSQL"),
    pytest.mark.parametrize("db_url", ["sqlite"], indirect=True),
]

FIRST = b"#!POPCORN leaderboard double\n#!POPCORN gpu h100\nimport torch\n"


@pytest.fixture
def old() -> Iterator[tuple[str, Connection]]:
    with running_kernelbot() as each:
        yield each


@pytest.fixture
def board(db: Any) -> Any:
    return make_board(db, name="double-shadow", devices=["H100"], visibility=Visibility.CLOSED, freeze_at=NOW)


@pytest.fixture
def follower(old: Any, server_url: str, person: Any, tmp_path: Path, board: Any) -> Iterator[Follower]:
    with Client(server_url, person("root", Role.ADMIN).token) as client:
        made = Follower(
            url=old[0],
            client=client,
            boards={"double": "double-shadow"},
            devices={},
            journal=tmp_path / "journal.csv",
        )
        assert made.step().left == 0  # the journal begins
        yield made


def stored(db: Any) -> list[tuple[str, str]]:
    query = select(SubmissionRow.idempotency_key, UserRow.name).join(UserRow).order_by(SubmissionRow.id)
    with db.read() as session:
        return [(key, name) for key, name in session.execute(query)]


def test_what_is_done_there_is_sent_once_under_its_authors_name(follower, old, db) -> None:
    _, kernelbot = old
    one = submit(kernelbot, FIRST)
    two = submit(kernelbot, b"import torch\n", user=BOB)
    submit(kernelbot, b"import torch\n", board=2)
    found = follower.step()
    assert (found.sent, found.refused, found.left) == (2, 0, 0)
    assert stored(db) == [(f"kernelbot-{one}", "Ada"), (f"kernelbot-{two}", "bob")]
    assert follower.step().sent == 0


def test_what_came_before_the_first_start_is_not_sent(old, follower, tmp_path, db) -> None:
    submit(old[1], FIRST)
    follower.journal = tmp_path / "other.csv"
    assert follower.step().sent == 0
    assert stored(db) == []


@pytest.mark.jobs
def test_a_submission_that_is_done_late_is_not_lost(follower, old, db) -> None:
    _, kernelbot = old
    late = submit(kernelbot, FIRST, done=False)
    submit(kernelbot, b"import torch\n", user=BOB)
    assert follower.step().sent == 1
    kernelbot.execute(text("UPDATE leaderboard.submission SET done = true WHERE id = :id"), {"id": late})
    assert follower.step().sent == 1
    assert len(stored(db)) == 2


def test_a_follower_that_is_killed_twice_doubles_and_loses_nothing(follower, old, db, monkeypatch) -> None:
    _, kernelbot = old
    numbers = [submit(kernelbot, f"x = {number}\n".encode()) for number in range(6)]
    add, written = Journal.add, Journal._write

    def die_before_writing(journal: Journal, there: int, *rest: Any) -> None:
        if there == numbers[2]:
            raise KeyboardInterrupt
        add(journal, there, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", die_before_writing)
        with pytest.raises(KeyboardInterrupt):
            follower.step()
    assert len(stored(db)) == 3

    def die_while_writing(journal: Journal, line: str) -> None:
        if line.startswith(str(numbers[4])):
            written(journal, line[:2])
            raise KeyboardInterrupt
        written(journal, line)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_write", die_while_writing)
        with pytest.raises(KeyboardInterrupt):
            follower.step()
    assert follower.step().left == 0
    assert [key for key, _ in stored(db)] == [f"kernelbot-{number}" for number in numbers]
    with follower.journal.open() as file:
        assert [row["kernelbot"] for row in csv.DictReader(file)][1:] == list(map(str, numbers))


def test_what_cannot_be_sent_is_noted_with_its_reason(follower, old) -> None:
    _, kernelbot = old
    submit(kernelbot, FIRST, runner="T4")
    submit(kernelbot, FIRST, runner=None)
    submit(kernelbot, b"# caf\xe9\n")
    submit(kernelbot, b"")
    found = follower.step()
    assert (found.sent, found.refused) == (0, 4)
    noted = follower.journal.read_text()
    for reason in ("no device T4 here", "its GPU is not known", "it is no text", "empty_file"):
        assert reason in noted


@pytest.mark.jobs
def test_a_gpu_with_another_name_here_is_mapped(follower, old) -> None:
    submit(old[1], FIRST, runner="H100_SXM")
    follower.devices = {"h100_sxm": "H100"}
    assert follower.step().sent == 1


@pytest.mark.jobs
def test_a_server_that_is_away_loses_nothing(follower, old, db) -> None:
    submit(old[1], FIRST)
    with Client("http://127.0.0.1:9", "kc_token") as away:
        here, follower.client = follower.client, away
        found = follower.step()
    assert (found.sent, found.left) == (0, 1)
    assert found.trouble
    follower.client = here
    assert follower.step().sent == 1


def test_a_token_that_may_not_act_for_others_ends_the_follower(follower, old, server_url, person, db) -> None:
    submit(old[1], FIRST)
    make_board(db, name="open", devices=["H100"])
    follower.boards = {"double": "open"}
    with Client(server_url, person("eve").token) as client:
        follower.client = client
        with pytest.raises(Forbidden):
            follower.step()


@pytest.mark.jobs
def test_another_file_is_not_taken_for_a_journal(follower) -> None:
    follower.journal.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValue, match="not a journal"):
        follower.step()


def test_both_sides_are_compared(follower, old, db, finish) -> None:
    url, kernelbot = old
    for number, seconds in enumerate((1e-6, 2e-6, 3e-6)):
        user = f"99{number}"
        kernelbot.execute(
            text("INSERT INTO leaderboard.user_info (id, user_name) VALUES (:id, :id)"), {"id": user}
        )
        submit(kernelbot, f"x = {number}\n".encode(), user=user, score=seconds)
    submit(kernelbot, b"wrong = 1\n", user=BOB, failed="test")
    submit(kernelbot, b"open = 1\n", user=ADA)
    assert follower.step().sent == 5
    for times in (1100.0, 2200.0, 3300.0):
        finish(make_report((times,)))
    finish(make_report(verdict=Verdict.WRONG_ANSWER))
    with opened(url) as tables:
        found = compare(tables, db)
    assert (len(found.pairs), found.open) == (4, 1)
    assert found.verdicts["passed"]["accepted"] == 3
    assert found.verdicts["failed in test"]["wrong_answer"] == 1
    (ranking,) = found.rankings
    assert (ranking.board, ranking.gpu, ranking.pairs, ranking.people) == ("double-shadow", "H100", 3, 3)
    assert ranking.ratio == pytest.approx(1.1)
    assert ranking.low == pytest.approx(1.1)
    assert ranking.spearman == pytest.approx(1.0)
    assert ranking.moved == ()
    assert found.waits["KernelBot"] == (5.0, 5.0)
    assert len(found.as_csv().splitlines()) == 5
    page = found.as_page()
    assert "1.100" in page
    assert "4 results" in page
    assert "<script" not in page


def test_a_silent_board_tells_no_one(follower, old, db, board, finish, person, clock) -> None:
    """It is closed, and frozen from its beginning: its members are not told who overtakes them."""
    bot = person("bot", Role.ADMIN).actor
    public = make_board(db, name="loud", devices=["H100"])
    _, kernelbot = old
    for target, expected in ((public, 1), (board, 0)):
        follower.boards = {"double": target.name}
        before = addressed(db, bot).newest
        for user, time_ns in ((ADA, 2000.0), (BOB, 1000.0)):
            submit(kernelbot, f"{target.name} = {time_ns}\n".encode(), user=user)
            assert follower.step().sent == 1
            finish(make_report((time_ns,)))
        mine = [each for each in items(db, NOBODY, after_id=0) if each.leaderboard == target.name]
        assert bool(mine) == bool(expected)
        told = [
            each
            for provider in ("discord", "github")
            for each in addressed(db, bot, after_id=before, provider=provider).items
        ]
        assert len(told) == expected
