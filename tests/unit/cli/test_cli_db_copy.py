"""``kernelcup db copy``: to an empty database, while no server runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from test_cli_commands import Command, board, command, home

from kernelcup.app.machines import dispatchers
from kernelcup.engine.database import Database

__all__ = ["board", "command", "home"]


def test_the_copy_is_what_the_configuration_names_next(
    command: Command, home: Path, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "files").mkdir()
    copied = command("db", "copy", f"sqlite:///{home.parent / 'target.db'}")
    assert copied.code == 0
    assert "\nleaderboards: 1 row, sha256 " in copied.out
    assert "rows are equal; name the copy in KERNELCUP_DATABASE" in copied.out
    assert copied.out.endswith(f"changes: {home / 'files'}, {home / 'kernelcup.toml'}\n")
    monkeypatch.setenv("KERNELCUP_DATABASE", f"sqlite:///{home.parent / 'target.db'}")
    (home / "kernelcup.db").unlink()
    assert board in command("board", "list").out


def test_the_copy_is_listed_table_by_table(command: Command, home: Path, board: str) -> None:
    body = command("db", "copy", f"sqlite:///{home.parent / 'target.db'}", "--json").body
    known = {each["table"]: each for each in body["tables"]}
    assert known["leaderboards"]["rows"] == 1
    assert len(known["users"]["sha256"]) == 64
    assert body["beside"] == [str(home / "kernelcup.toml")]


def test_nothing_is_copied_while_a_server_runs(command: Command, home: Path) -> None:
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as here:
        now = datetime.now(UTC)
        dispatchers.check_in(here, owner="elsewhere:1:x", devices=[], started_at=now, draining=False, now=now)
    refused = command("db", "copy", f"sqlite:///{home.parent / 'target.db'}")
    assert refused.code == 3
    assert "a server is running: elsewhere:1:x" in refused.err
    assert "nothing was changed" in refused.err


def test_a_database_with_rows_is_no_target(command: Command, home: Path, board: str) -> None:
    refused = command("db", "copy", f"sqlite:///{home / 'kernelcup.db'}")
    assert (refused.code, "is not empty: table " in refused.err) == (3, True)
    assert board in command("board", "list").out


@pytest.mark.parametrize(
    ("url", "told"),
    [("oracle://x/y", "oracle"), ("target", "expected sqlite:///FILE or postgresql://")],
)
def test_a_target_that_is_no_database_is_named(command: Command, url: str, told: str) -> None:
    refused = command("db", "copy", url)
    assert refused.code == 4
    assert told in refused.err


def test_without_a_database_there_is_nothing_to_copy(command: Command, home: Path) -> None:
    (home / "kernelcup.db").unlink()
    refused = command("db", "copy", f"sqlite:///{home.parent / 'target.db'}")
    assert (refused.code, "There is no database at " in refused.err) == (3, True)
