"""Results of an older clock on the command line, and what the doctor says of clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_commands import Command, command, home

from builders import NOW, make_board, make_report, make_submission
from kernelcup.domain import TrustRule
from kernelcup.services.queue import lifecycle
from kernelcup.storage.engine.database import Database
from older_clocks import set_apart

__all__ = ["command", "home"]

COMMAND = "kernelcup admin rejudge double --only-best"


@pytest.fixture
def db(home: Path) -> Database:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as found:
        yield found


@pytest.fixture
def older(db: Database) -> None:
    """A leaderboard where ada's result stands apart, and bob's ranks."""
    make_board(db, devices=["cpu"])
    for user in ("ada", "bob"):
        if user == "bob":
            set_apart(db)
        make_submission(db, user=user, devices=["cpu"])
        lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["cpu"], now=NOW)
        assert lease is not None
        lifecycle.finish(db, lease, report=make_report([1500.0]), harness_hash="", machine="m", now=NOW)


def test_standings_show_older_results_apart_with_the_command(command: Command, older) -> None:
    shown = command("standings", "double").out
    ranking, _, apart = shown.partition("double on cpu, measured by an older clock")
    assert ("bob" in ranking, "ada" in ranking) == (True, False)
    assert ("bob" in apart, "ada" in apart) == (False, True)
    assert COMMAND in " ".join(apart.split())


def test_standings_as_json_have_older_results_apart(command: Command, older) -> None:
    body = command("standings", "double", "--json").body
    assert [each["user"] for each in body["standings"]["cpu"]] == ["bob"]
    assert [(each["rank"], each["user"]) for each in body["older"]["cpu"]] == [(1, "ada")]


def test_a_leaderboard_says_how_many_older_results_it_has(command: Command, older) -> None:
    shown = command("board", "show", "double").out
    assert "measured by an older clock, so apart from the ranking until judged again: 1 on cpu" in shown
    assert COMMAND in shown
    assert command("board", "show", "double", "--json").body["older_results"] == {"cpu": 1}


def test_the_plan_of_a_rejudge_counts_older_results(command: Command, older) -> None:
    shown = command("admin", "rejudge", "double", "--only-best", "--dry-run").out
    assert "1 were measured by an older clock" in shown


def test_a_leaderboard_without_older_results_says_nothing_of_them(command: Command, db: Database) -> None:
    make_board(db, devices=["cpu"])
    assert "older" not in command("board", "show", "double").out
    assert "older" not in command("standings", "double").out


def test_the_doctor_says_by_which_clock_each_device_goes(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = '\n[[devices]]\nname = "box"\nbackend = "cpu"\n\n[[devices]]\nname = "T4"\nbackend = "cuda"\n'
    (home / "kernelcup.toml").write_text(devices)
    (line,) = [each for each in command("doctor").out.splitlines() if "clocks " in each]
    assert "box: the judge's wall clock, since there is no GPU; not comparable" in line
    assert "T4: the device's timer in a clean process (replayed), or the judge's wall clock" in line


def test_the_doctor_names_leaderboards_that_require_what_their_devices_cannot_give(
    command: Command, db: Database
) -> None:
    assert "each leaderboard's devices can give what it requires" in command("doctor").out
    make_board(db, devices=["H100", "cpu"], trust=TrustRule.REPLAYED)
    shown = command("doctor").out
    assert "BROKEN   levels" in shown
    assert "those are by the wall clock: double on cpu" in shown
