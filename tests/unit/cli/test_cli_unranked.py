"""Times that a leaderboard does not rank, on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from test_cli_commands import Command, command, home

from builders import NOW, make_board, make_report, make_submission, make_task, make_wall_report
from kernelcup.app.boards.changes import update_board
from kernelcup.app.queue import lifecycle
from kernelcup.domain import OPERATOR, AfterDeadline, TrustRule
from kernelcup.engine.database import Database

__all__ = ["command", "home"]


@pytest.fixture
def strict(home: Path) -> Iterator[None]:
    """A leaderboard where bob's time ranks, and ada's is by the wall clock."""
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as db:
        make_board(db, devices=["H100"], trust=TrustRule.REPLAYED)
        for user, report in (("ada", make_wall_report()), ("bob", make_report([1500.0]))):
            make_submission(db, user=user, devices=["H100"])
            lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=NOW)
            assert lease is not None
            lifecycle.finish(db, lease, report=report, harness_hash="", machine="m", now=NOW)
        yield


def test_standings_show_times_by_the_wall_clock_apart_and_why(command: Command, strict) -> None:
    ranking, _, apart = command("standings", "double").out.partition("double on H100, not ranked")
    assert ("bob" in ranking, "ada" in ranking) == (True, False)
    assert ("bob" in apart, "ada" in apart, "–" in apart) == (False, True, True)
    assert "not ranked: this leaderboard ranks replayed times only" in " ".join(apart.split())
    body = command("standings", "double", "--json").body
    assert [each["user"] for each in body["standings"]["H100"]] == ["bob"]
    assert [(each["user"], each["trust"]) for each in body["unranked"]["H100"]] == [("ada", "wall clock")]


def test_standings_show_practice_beside_the_final_table(command: Command, home: Path) -> None:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as db:
        ends = NOW + timedelta(hours=1)
        make_board(db, devices=["H100"], deadline=ends, after_deadline=AfterDeadline.PRACTICE)
        for user, at, time_ns in (("bob", NOW, 1500.0), ("ada", ends + timedelta(hours=1), 1000.0)):
            make_submission(db, user=user, devices=["H100"], now=at)
            lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=at)
            assert lease is not None
            lifecycle.finish(db, lease, report=make_report([time_ns]), harness_hash="", machine="m", now=at)
    ranking, _, apart = command("standings", "double").out.partition("practice after the deadline")
    assert [("bob" in each, "ada" in each) for each in (ranking, apart)] == [(True, False), (False, True)]
    body = command("standings", "double", "--json").body
    assert [each["user"] for each in body["standings"]["H100"]] == ["bob"]
    assert [(each["rank"], each["user"]) for each in body["practice"]["H100"]] == [(1, "ada")]
    assert "ranked submissions go into a practice table" in command("board", "show", "double").out


def test_standings_say_that_results_of_an_earlier_version_wait_and_for_which_command(
    command: Command, home: Path, strict
) -> None:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as db:
        update_board(db, OPERATOR, "double", task=make_task(tests=[{"size": 32, "seed": 1}]), now=NOW)
    told = " ".join(command("standings", "double").out.split())
    assert "Not ranked: 1 user's result was judged against an earlier version of the task." in told
    assert "kernelcup admin rejudge double" in told
    assert command("standings", "double", "--json").body["waiting"] == {"H100": 1}
