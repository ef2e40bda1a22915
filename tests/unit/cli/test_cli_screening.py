"""What reviewers see of a second opinion."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console
from test_cli_commands import CONFIG, home

from builders import SUBMISSION, look_at
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.cli.entry import execute
from kernelcup.cli.show.screening import NO_VERDICT, print_screening
from kernelcup.cli.wiring import second_opinion
from kernelcup.config.settings import Config
from kernelcup.engine.database import Database
from kernelcup.screen.findings import Remark, Screening
from kernelcup.screen.kernelguard import KernelGuard

__all__ = ["home"]

CHEAT = "import sys\nsys._getframe(1)\n" + SUBMISSION


@pytest.fixture
def submitted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A leaderboard with the cheat as number 1 and the honest kernel as number 2."""
    Path("cheat.py").write_text(CHEAT)
    assert execute(["board", "create", "identity"]) == 0
    for name in ("cheat.py", "kernel.py"):
        execute(["submit", name, "--board", "identity", "--user", "ada", "--no-wait"])
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as db:
        for number in (1, 2):
            look_at(db, show_submission(db, number))
    capsys.readouterr()


def shown(screening: Screening | None) -> str:
    """Return what is printed of a screening."""
    out = Console(file=io.StringIO(), width=120, highlight=False)
    print_screening(out, screening)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_a_submission_is_shown_with_its_tags(submitted, capsys):
    execute(["submissions", "show", "1"])
    out = capsys.readouterr().out
    assert "Second opinion (words 1)" in out
    assert NO_VERDICT in out
    execute(["submissions", "show", "1", "--json"])
    assert json.loads(capsys.readouterr().out)["screening"]["tags"] == ["frame_walk"]


def test_a_submission_without_tags_is_shown_as_such(submitted, capsys):
    execute(["submissions", "show", "2"])
    assert "Second opinion: no tags" in capsys.readouterr().out


def test_submissions_are_listed_by_tag(submitted, capsys):
    execute(["submissions", "list", "--tag", "frame_walk", "--json"])
    assert [each["id"] for each in json.loads(capsys.readouterr().out)["submissions"]] == [1]
    execute(["submissions", "list", "--tag", "threads"])
    assert "No submission matches." in capsys.readouterr().out


def test_a_submission_without_a_second_opinion_is_shown_as_such():
    assert "Second opinion: none" in shown(None)


def test_how_much_is_left_out_is_told():
    finding = Remark(tag="network", line=1, column=1, source="import socket", explanation="Uses the network.")
    assert "12 more findings are left out." in shown(
        Screening(rules_version="1", findings=(finding,), left_out=12)
    )


def test_a_line_cannot_command_the_terminal():
    finding = Remark(tag="network", line=1, column=1, source="\x1b[31m[red]x", explanation="[/]")
    out = shown(Screening(rules_version="1", findings=(finding,)))
    assert "\x1b" not in out
    assert "[red]x" in out


def test_a_second_opinion_is_asked_only_where_that_is_configured(home):
    assert second_opinion(Config.load(None, os.environ)) is None
    (home / "kernelcup.toml").write_text(f"{CONFIG}\n[screen]\nkernelguard = true\n")
    config = Config.load(None, os.environ)
    assert config.kernelguard
    expected = KernelGuard.if_installed()
    found = second_opinion(config)
    assert (found and found.name) == (expected and expected.name)
