"""What a change goes through: the message of its commit, and the lanes of tests that it may have broken."""

from __future__ import annotations

import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import parts

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
MESSAGE = SCRIPTS / "check-commit-message"
LANES = runpy.run_path(str(SCRIPTS / "dear-lanes"))
HOUSE = runpy.run_path(str(SCRIPTS / "house"))


@pytest.mark.parametrize(
    "subject",
    [
        "cli: tables break no word",
        "http/api: " + "x" * 62,
        "fixup! cli: tables break no word, whatever the terminal is and however long this line gets to be",
        "Merge branch 'web'",
    ],
)
def test_a_message_with_an_area_is_taken(tmp_path: Path, subject: str) -> None:
    assert (
        check(tmp_path, f"{subject}\n\nMore text, which may be as long as its writer likes: {'x' * 100}\n")
        == ""
    )


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("tables break no word", "`area: what changes`"),
        ("cli:tables break no word", "`area: what changes`"),
        ("cli: tables break no word.", "`area: what changes`"),
        ("", "`area: what changes`"),
        ("http/api: " + "x" * 63, "has 73 characters; 72 are allowed"),
    ],
)
def test_another_message_is_refused(tmp_path: Path, subject: str, told: str) -> None:
    assert told in check(tmp_path, f"{subject}\n")


def test_pre_commit_asks_for_the_message() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "default_install_hook_types: [pre-commit, commit-msg]" in hooks
    assert "entry: scripts/check-commit-message" in hooks


@pytest.mark.parametrize(
    ("changed", "turn", "lanes"),
    [
        (["docs/index.md"], 0, ["container"]),
        (["docs/index.md"], 1, ["fleet"]),
        (["docs/index.md"], 5, ["cuda-build"]),
        (["deploy/compose.yaml", "tests/fleet/test_ray.py"], 5, ["container", "fleet"]),
        (["src/kernelcup_harness/device/port.py"], 0, ["cuda-build"]),
    ],
)
def test_a_lane_runs_if_its_files_changed_and_else_one_in_turn(
    changed: list[str], turn: int, lanes: list[str]
) -> None:
    assert LANES["lanes_of"](changed, turn) == lanes


def test_what_a_lane_tries_is_there() -> None:
    starts = [start for starts in LANES["TRIES"].values() for start in starts] + [*LANES["JUDGED"]]
    assert [start for start in starts if not (ROOT / start).exists()] == []


def test_the_judged_files_that_changed_are_named() -> None:
    changed = [
        "tests/judged/attacks/t03_seed_discovery/attack.py",
        "src/kernelcup/tasks/examples/vectoradd/solutions/wrong_tail.py",
        "src/kernelcup/cli/app.py",
    ]
    assert LANES["judged_of"](changed) == ["t03_seed_discovery", "vectoradd"]


def test_the_parts_together_have_each_test_once() -> None:
    every = [f"tests/unit/test_some.py::test_number[{number}]" for number in range(50)]
    found = [kept(every, f"{number}/3") for number in range(3)]
    assert sorted(test for part in found for test in part) == sorted(every)
    assert all(found)
    assert all("tests/unit/test_some.py::test_number[7]" in kept(every, f"{n}/3", "[7]") for n in range(3))


@pytest.mark.parametrize("text", ["3/3", "-1/3", "1", "a/b"])
def test_a_part_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parts.part(text)


@dataclass(frozen=True)
class Item:
    """A test, as far as parts ask."""

    nodeid: str


def kept(tests: list[str], part: str, *also: str) -> list[str]:
    """Return the tests that a part keeps."""
    items: Any = [Item(test) for test in tests]
    options = {"part": parts.part(part), "also": list(also)}
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    parts.pytest_collection_modifyitems(items, cast("Any", SimpleNamespace(getoption=options.get, hook=hook)))
    return [item.nodeid for item in items]


def check(folder: Path, message: str) -> str:
    """Return what is said against a message, nothing where it is taken."""
    file = folder / "COMMIT_EDITMSG"
    file.write_text(message, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(MESSAGE), str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == bool(done.stderr)
    return done.stderr


def sizes_of(folder: Path, text: str) -> dict[str, int]:
    """Return what of a module with this text is above the limits."""
    (folder / "some.py").write_text(text, encoding="utf-8")
    found: dict[str, int] = HOUSE["too_large"](folder)
    return found


def test_modules_that_import_each_other_are_found(tmp_path: Path) -> None:
    for package in ("kernelcup", "kernelcup_harness"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "kernelcup/one.py").write_text("from kernelcup import two\n")
    (tmp_path / "kernelcup/two.py").write_text("def late():\n    from kernelcup.one import it\n")
    (tmp_path / "kernelcup/three.py").write_text("from kernelcup import one\n")

    assert HOUSE["circles"](tmp_path) == [["kernelcup.one", "kernelcup.two"]]


@pytest.mark.parametrize(
    "text",
    [
        'NOTE = "Begins here, "\n"and ends here."\n',
        'x = 1\nprint(x)\n"""Too late."""\n',
        'if True:\n    f"{1}"\n',
    ],
)
def test_a_string_that_is_a_statement_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "some.py").write_text(text)
    (fault,) = HOUSE["stray_strings"](tmp_path)
    assert fault.startswith("some.py:")


def test_docstrings_may_stand_alone(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text('''"""Module."""\nx = 1\n"""A name."""\ny: str = ("a"\n"b")\n''')
    assert HOUSE["stray_strings"](tmp_path) == []


def test_what_is_too_large_is_found(tmp_path: Path) -> None:
    lines = "    x = 1\n"
    assert sizes_of(tmp_path, "def short():\n" + 40 * lines) == {}
    assert sizes_of(tmp_path, "def long():\n" + 41 * lines) == {"function some.long": 41}
    assert sizes_of(tmp_path, "class Large:\n" + 250 * lines) == {"class some.Large": 251}
    assert sizes_of(tmp_path, 401 * "x = 1\n") == {"module some": 401}


def test_arguments_and_docstrings_do_not_make_a_function_long(tmp_path: Path) -> None:
    arguments = "".join(f"    a{number}: int,\n" for number in range(50))
    assert (
        sizes_of(
            tmp_path, f'def f(\n{arguments}) -> None:\n    """Text.\n\n' + 50 * "    more\n" + '    """\n'
        )
        == {}
    )


@pytest.mark.parametrize(
    ("found", "allowed", "told"),
    [
        ({"module a": 401}, {}, "401 lines; allowed are 400"),
        ({"module a": 460}, {"module a": 450}, "460 lines; allowed are 450"),
        ({}, {"module a": 450}, "take it out"),
    ],
)
def test_new_large_parts_and_growing_ones_are_refused(
    found: dict[str, int], allowed: dict[str, int], told: str
) -> None:
    (fault,) = HOUSE["faults"](found, allowed)
    assert told in fault


def test_what_was_large_may_stay(tmp_path: Path) -> None:
    assert list(HOUSE["faults"]({"module a": 450}, {"module a": 460})) == []
