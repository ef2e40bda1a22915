"""``kernelcup board create`` and ``show``: whose code judges, asked for and told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from kernelcup.app.boards.judgeable import Tried
from kernelcup.cli import wiring
from kernelcup.cli.entry import execute

OWN_ONLY = "def other(): ...\n"
REFERENCE = """\
def generate_input(size, seed): return [seed] * size
def check_implementation(data, output): return data == output
"""
YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: eval.py, source: eval.py}
config: {main: eval.py}
lang: py
benchmarks:
  - {size: 64, seed: 2}
"""
CONFIG = '[[devices]]\nname = "emulated"\nbackend = "emulated"\n'


class NeverFails:
    """A trial that finds nothing."""

    def try_task(self, *_: object, **__: object) -> Tried:
        """Find nothing."""
        return Tried()


@pytest.mark.parametrize(
    ("gpus", "taken"), [("[cpu]", "cpu"), ("[H100, CPU]", "cpu"), ("[H100]", "emulated")]
)
def test_a_leaderboard_takes_the_devices_that_its_task_names_and_this_machine_has(
    folder: Path, gpus: str, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = '[[devices]]\nname = "cpu"\nbackend = "cpu"\n'
    (folder.parent / "home/kernelcup.toml").write_text(CONFIG + cpu)
    (folder / "task.yml").write_text(f"{YML}gpus: {gpus}\n")

    assert execute(["board", "create", str(folder)]) == 0
    assert f"takes submissions on {taken};" in capsys.readouterr().out


class Doubting:
    """A trial that finds a checker which accepts what is wrong."""

    def try_task(self, *_: object, **__: object) -> Tried:
        """Find it."""
        return Tried(loose=("the checker ignores the answer",))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task that ships its own harness."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "kernelcup.toml").write_text(CONFIG)
    monkeypatch.setenv("KERNELCUP_HOME", str(home))
    monkeypatch.setattr(wiring, "make_trial", lambda *_: NeverFails())
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "task.yml").write_text(YML)
    (folder / "eval.py").write_text("")
    (folder / "reference.py").write_text(REFERENCE)
    return folder


def test_show_prints_the_harness_of_the_board_and_not_of_the_task(folder, capsys) -> None:
    assert execute(["board", "create", str(folder)]) == 0
    assert "judged by the standard harness (its own solutions pass" in capsys.readouterr().out
    assert execute(["board", "show", "shipped"]) == 0
    assert "judged by: standard harness" in capsys.readouterr().out
    assert execute(["board", "show", "shipped", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["harness"], body["task"]["harness"], body["seeds_below"]) == ("standard", "standard", None)


def test_its_own_harness_is_asked_for_by_an_option_where_there_is_no_terminal(folder, capsys) -> None:
    (folder / "reference.py").write_text(OWN_ONLY)
    assert execute(["board", "create", str(folder)]) == 3
    err = capsys.readouterr().err
    assert "can be judged by its own harness only" in err
    assert f"kernelcup board create {folder} --harness own" in err
    assert execute(["board", "create", str(folder), "--harness", "own", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["harness"] == "own"
    assert body["notes"] == [
        "judged by its own harness (eval.py), as asked; results are marked self-measured"
    ]


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
@pytest.mark.parametrize("about", ["its own harness", "the checker"])
def test_a_terminal_is_asked(folder, capsys, monkeypatch, about: str, answer: str) -> None:
    if about == "the checker":
        monkeypatch.setattr(wiring, "make_trial", lambda *_: Doubting())
    else:
        (folder / "reference.py").write_text(OWN_ONLY)
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", terminal)
    assert (execute(["board", "create", str(folder)]) == 0) is (answer == "y\n")
    capsys.readouterr()
    assert (execute(["board", "show", "shipped"]) == 0) is (answer == "y\n")


def test_a_checker_that_accepts_wrong_answers_is_confirmed(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(wiring, "make_trial", lambda *_: Doubting())
    assert execute(["board", "create", str(folder)]) == 3
    err = capsys.readouterr().err
    assert "the checker ignores the answer" in err
    assert f"kernelcup board create {folder} --force" in err
    assert execute(["board", "create", str(folder), "--force"]) == 0
    assert "the checker ignores the answer" in capsys.readouterr().out
    (folder / "eval.py").write_text("# new\n")
    update = ["board", "update", "shipped", str(folder), "--yes"]
    assert execute(update) == 3
    assert "the checker ignores the answer" in capsys.readouterr().err
    assert execute([*update, "--force"]) == 0
