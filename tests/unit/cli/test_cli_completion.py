"""What a shell completes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from test_cli_commands import home

from builders import make_board
from kernelcup.cli import completion
from kernelcup.cli.entry import commands
from kernelcup.engine.database import Database

__all__ = ["home"]


@pytest.fixture
def board(home: Path) -> str:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as db:
        return make_board(db, devices=["H100", "A100"]).name


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("stand", ["standings"]),
        ("admin rej", ["rejudge"]),
        ("standings d", ["double"]),
        ("submit kernel.py --board D", ["double"]),
        ("admin rejudge none", []),
        ("submit kernel.py --board double --device ", ["H100", "A100"]),
        ("board update double --device h", ["H100"]),
        ("run task kernel.py --device e", ["emulated"]),
    ],
)
def test_commands_boards_and_devices_are_completed(
    board: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    offered: list[str],
) -> None:
    words = ["kernelcup", *line.split(" ")]
    monkeypatch.setenv(completion.VARIABLE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    commands.cache_clear()
    with pytest.raises(SystemExit):
        completion.complete(commands)
    commands.cache_clear()
    out, err = capsys.readouterr()
    assert (out.split(), err) == (offered, "")


def test_a_server_that_does_not_answer_completes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = SimpleNamespace(params={"server": "http://127.0.0.1:9"})
    find = completion.quietly(completion.boards)
    assert (find(context, None, ""), capsys.readouterr().err) == ([], "")
