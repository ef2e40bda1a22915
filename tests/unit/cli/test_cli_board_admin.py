"""``board update``, ``board sync`` and ``admin stats``: what they print and how they end."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
from test_cli_commands import Command, board, command, home, host_task

from kernelcup.cli.author.board_settings import OPTIONS
from kernelcup.domain import SETTING_TYPES

__all__ = ["board", "command", "home", "host_task"]

REFERENCE = """\
def generate_input(size: int, seed: int):
    return [seed] * size


def check_implementation(data, output):
    return data == output
"""


def test_a_board_is_made_with_all_settings(command: Command) -> None:
    settings = ("--members-only", "--pseudonymous", "--code", "after-deadline", "--max-file-bytes", "500")
    made = command(
        *(
            "board",
            "create",
            "identity",
            *settings,
            "--review-tag",
            "stream",
            "--freeze",
            "2099-01-01",
            "--json",
        )
    ).body
    assert made["visibility"] == "closed"
    assert made["pseudonymous"] is True
    assert made["code_policy"] == "after_deadline"
    assert made["max_file_bytes"] == 500
    assert made["review_tags"] == ["stream"]
    assert made["freeze_at"] == "2099-01-01T00:00:00+00:00"
    assert "identity (members only)" in command("board", "list").out


def test_a_preview_changes_nothing_and_shows_both_sides(command: Command, board: str) -> None:
    ended = command("board", "update", board, "softmax", "--deadline", "2099-01-01", "--preview")
    assert ended.code == 0
    assert "deadline: none -> 2099-01-01 23:59:59 UTC" in ended.out
    assert "reference.py changed: +" in ended.out
    assert "tests changed: " in ended.out
    assert "results from before and after are not comparable" in ended.out
    assert command("board", "show", board, "--json").body["deadline"] is None


def test_an_update_asks_unless_it_is_told_not_to(command: Command, board: str) -> None:
    ended = command("board", "update", board, "--deadline", "2099-01-01")
    assert (ended.code, "not a terminal" in ended.err) == (3, True)
    assert command("board", "update", board, "--deadline", "2099-01-01", "--yes").code == 0
    assert command("board", "show", board, "--json").body["deadline"] == "2099-01-01T23:59:59+00:00"
    body = command("board", "update", board, "--deadline", "none", "--yes", "--json").body
    assert body["settings"] == {"deadline": {"old": "2099-01-01T23:59:59+00:00", "new": None}}
    assert (body["updated"], body["rejudged_jobs"]) == (True, 0)
    assert command("board", "update", board, "--no-pseudonymous").out == f"nothing changes in {board}\n"


def test_wrong_settings_are_refused_with_what_is_allowed(command: Command, board: str) -> None:
    for option, value, words in (
        ("--code", "always", "never or after_deadline"),
        ("--max-file-bytes", "many", "expected a number, or none"),
        ("--deadline", "2001-01-01", "already passed"),
        ("--device", "H9", "H9"),
        ("--harness", "own", "no harness of its own"),
    ):
        ended = command("board", "update", board, option, value, "--preview")
        assert ended.code == 3
        assert words in ended.err
    assert "no leaderboard 'none'" in command("board", "update", "none", "--yes").err


def test_a_used_device_is_taken_away_by_force(command: Command, host_task: str) -> None:
    command("board", "create", host_task, "--name", "identity", "-d", "cpu", "-d", "emulated")
    command("submit", "kernel.py", "-d", "cpu", "--no-wait")
    seen = command("board", "update", "identity", "-d", "emulated", "--preview")
    assert "cpu has submissions; removing it needs --force" in seen.out
    assert command("board", "update", "identity", "-d", "emulated", "--yes").code == 3
    assert command("board", "update", "identity", "-d", "emulated", "--yes", "--force").code == 0


def test_a_leaderboard_of_a_competition_that_was_held_elsewhere_is_over_from_the_start(
    command: Command, host_task: str
) -> None:
    wanted = (
        "board",
        "create",
        host_task,
        "--name",
        "held",
        "-d",
        "cpu",
        "--deadline",
        "2020-01-01",
        "--no-run",
    )
    assert "already passed" in command(*wanted).err
    assert command(*wanted, "--over").code == 0
    assert command("board", "show", "held", "--json").body["deadline"] == "2020-01-01T23:59:59+00:00"
    assert "deadline" in command("submit", "kernel.py", "-b", "held", "-d", "cpu", "--no-wait").err


def repository_of(folder: Path, *more: str, **problem: object) -> str:
    """Make a repository with one problem, and with more of other names, and return its path."""
    from dulwich import porcelain
    from dulwich.repo import Repo

    files = [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "reference.py", "source": "reference.py"},
    ]
    task = {"files": files, "lang": "py", "benchmarks": [{"size": 4, "seed": 1}]}
    entry = {"directory": "copy", "name": "copy", "gpus": ["emulated"], **problem}
    problems = [entry, *({**entry, "name": name} for name in more)]
    (folder / "problems/copy").mkdir(parents=True)
    (folder / "problems/set.yaml").write_text(json.dumps({"name": "Set", "problems": problems}))
    (folder / "problems/copy/task.yml").write_text(json.dumps(task))
    (folder / "problems/copy/reference.py").write_text(REFERENCE)
    with Repo.init(str(folder), default_branch=b"main") as repo:
        porcelain.add(repo, paths=[str(path) for path in folder.rglob("*.*") if path.is_file()])
        porcelain.commit(repo, message=b"x", author=b"a <a@b>", committer=b"a <a@b>")
    return str(folder)


def test_a_repository_is_synced(command: Command, home: Path) -> None:
    source = repository_of(home.parent / "repo", "health")
    seen = command("board", "sync", source, "--preview")
    assert "copy: would be created" in seen.out
    assert command("board", "list", "--json").body == {"leaderboards": []}
    done = command("board", "sync", source, "--problem-set", "set", "--json").body
    assert (done["created"], [each["name"] for each in done["errors"]]) == (["copy"], ["health"])
    again = command("board", "sync", source)
    assert "copy: skipped, no changes" in again.out
    assert "health: error: " in again.out
    assert "They are" not in again.out
    other = command("board", "sync", source, "--prefix", "x-")
    assert "Their owner is ada; choose another owner for new ones with --user NAME." in other.out


@pytest.mark.parametrize(
    ("problem", "told", "code"),
    [
        ({"gpus": ["B200"]}, "'B200' is not configured here", 3),
        # There is nothing to do.
        ({"deadline": "2020-01-01"}, "UTC has passed", 0),
    ],
)
def test_a_sync_that_makes_nothing_says_whether_something_is_left_to_do(
    command: Command, home: Path, problem: dict[str, object], told: str, code: int
) -> None:
    source = repository_of(home.parent / "repo", **problem)
    ended = command("board", "sync", source)
    assert (ended.code, told in ended.out) == (code, True)
    assert command("board", "sync", source, "--preview", "--json").code == code
    done = command("board", "sync", source, "--device", "emulated", "--deadline", "2099-01-01")
    assert (done.code, "copy: created" in done.out) == (0, True)
    assert command("board", "sync", source, "--device", "emulated", "--deadline", "2099-01-01").code == 0
    shown = command("board", "show", "copy", "--json").body
    assert (shown["devices"], shown["deadline"]) == (["emulated"], "2099-01-01T23:59:59+00:00")


def test_a_sync_names_the_device_that_it_leaves_out(command: Command, home: Path) -> None:
    source = repository_of(home.parent / "repo", gpus=["B200", "emulated"])
    ended = command("board", "sync", source)
    assert ended.code == 0
    assert "copy: created" in ended.out
    assert "copy: a device is left out. Device 'B200' is not configured here" in ended.out


def test_figures_are_shown(command: Command, board: str) -> None:
    command("submit", "kernel.py", "--no-wait")
    ended = command("admin", "stats", "--last-day")
    assert "1 submission (1 different) by 1 user; 1 job waits, 0 run" in ended.out
    body = command("admin", "stats", "--board", board, "--json").body
    assert (body["board"], body["submissions"], body["waiting"], body["devices"]) == (board, 1, 1, [])


def test_every_setting_has_an_option_and_a_field_on_the_page() -> None:
    assert {setting.name for setting in OPTIONS} == set(SETTING_TYPES)
    page = (files("kernelcup.http.pages") / "templates/admin/forms.html").read_text()
    assert [name for name in SETTING_TYPES if f"values.{name}" not in page] == []
