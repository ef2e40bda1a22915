"""``kernelcup board final`` on this machine's database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from test_cli_commands import Command, command, home

from builders import NOW, make_board, make_report, make_submission
from final_duels import hold_one
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals
from kernelcup.cli.backend.local import LocalBackend
from kernelcup.domain import OPERATOR
from kernelcup.engine.database import Database
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import Backend

__all__ = ["command", "home"]

TIMES = {1: 3.0, 2: 1.0, 3: 2.0}
"""How long the submissions take in duels."""


@pytest.fixture
def db(home: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as found:
        yield found


def finish(db: Database, **report: Any) -> None:
    lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["cpu"], now=NOW)
    assert lease is not None
    lifecycle.finish(
        db, lease, report=make_report(backend=Backend.CPU, **report), harness_hash="", machine="m", now=NOW
    )


@pytest.fixture
def closed(db: Database) -> None:
    """A closed leaderboard with the results of three users."""
    make_board(db, devices=["cpu"], cpu_times=True, deadline=NOW + timedelta(hours=1))
    assert NOW + timedelta(hours=1) < datetime.now(UTC)
    for user, time_ns in (("ada", 1000.0), ("bob", 1010.0), ("cyn", 1020.0)):
        make_submission(db, user=user, devices=["cpu"])
        finish(db, times_ns=[time_ns])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, db: Database) -> list[int]:
    """Duels are decided by :data:`TIMES` instead of a machine; the submissions that stood for them."""
    judged = []

    def judge(_backend: LocalBackend, submission: SubmissionInfo, *, quiet: bool) -> None:
        hold_one(db, submission.id, "cpu", TIMES, NOW)
        judged.append(submission.id)

    monkeypatch.setattr(LocalBackend, "judge", judge)
    return judged


def test_a_final_is_held_and_its_order_printed(command: Command, closed, machine) -> None:
    ended = command("board", "final", "double", "--top", "3", "--gpu", "CPU")
    assert ended.code == 0, ended.err
    assert machine == [4, 5, 6]
    assert "duel 1 of the final on cpu: #4" in ended.out
    table = ended.out.partition("Official order of double on cpu")[2].splitlines()
    assert [line.split()[:3] for line in table[2:5]] == [
        ["1", "bob", "#2"],
        ["2", "cyn", "#3"],
        ["3", "ada", "#1"],
    ]
    assert "3 submissions, 3 meetings. All intervals hold together" in " ".join(ended.out.split())
    assert "  #2 is 100.0 % faster than #3 (simultaneous interval" in ended.out


def test_a_final_that_was_held_is_shown_and_not_held_again(command: Command, closed, machine) -> None:
    first = command("board", "final", "double", "--json").body
    assert command("board", "final", "double", "--json").body == first
    assert [each["submission"] for each in first["places"]] == [2, 3, 1]
    assert len(machine) == 3
    again = command("board", "final", "double", "--again", "--json").body
    assert (again["id"], len(machine)) == (first["id"] + 1, 6)


def test_a_final_goes_on_where_it_stopped(command: Command, db: Database, closed, machine) -> None:
    finals.start(db, OPERATOR, "double", now=datetime.now(UTC))
    ended = command("board", "final", "double")
    assert (ended.code, machine) == (0, [4, 5, 6])


def test_the_leaderboard_shows_its_official_order(command: Command, closed, machine) -> None:
    assert command("board", "show", "double", "--json").body["finals"] == []
    assert "Official order" not in command("board", "show", "double").out
    held = command("board", "final", "double", "--json").body
    assert command("board", "show", "double", "--json").body["finals"] == [json.loads(json.dumps(held))]
    assert "Official order of double on cpu" in command("board", "show", "double").out


def test_an_open_leaderboard_is_refused_with_what_to_do(command: Command, db: Database, machine) -> None:
    make_board(db, devices=["cpu"])
    ended = command("board", "final", "double")
    assert ended.code == 3
    assert "error (leaderboard_open): Leaderboard 'double' has no deadline" in ended.err
    assert "Next: kernelcup admin close double" in ended.err


def test_a_leaderboard_with_several_devices_asks_which(command: Command, db: Database, machine) -> None:
    make_board(db, devices=["cpu", "emulated"])
    assert "error (device_needed)" in command("board", "final", "double").err
