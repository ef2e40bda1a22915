"""What the doctor says of clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_commands import Command, command, home

from builders import make_board
from kernelcup.domain import TrustRule
from kernelcup.engine.database import Database

__all__ = ["command", "home"]


@pytest.fixture
def db(home: Path) -> Database:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as found:
        yield found


def test_the_doctor_says_by_which_clock_each_device_goes(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = '\n[[devices]]\nname = "box"\nbackend = "cpu"\n\n[[devices]]\nname = "T4"\nbackend = "cuda"\n'
    (home / "kernelcup.toml").write_text(devices)
    (line,) = [each for each in command("doctor").out.splitlines() if "clocks " in each]
    assert "box: the judge's wall clock, since there is no GPU; not comparable" in line
    assert "T4: calls replayed in a clean process (witnessed or replayed), or the judge's wall clock" in line


def test_the_doctor_names_leaderboards_that_require_what_their_devices_cannot_give(
    command: Command, db: Database
) -> None:
    assert "each leaderboard's devices can give what it requires" in command("doctor").out
    make_board(db, devices=["H100", "cpu"], trust=TrustRule.REPLAYED)
    shown = command("doctor").out
    assert "BROKEN   levels" in shown
    assert "those are by the wall clock: double on cpu" in shown
