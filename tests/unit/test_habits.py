"""What a change goes through before it is a commit: its message, and the tests that fit it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
MESSAGE = SCRIPTS / "check-commit-message"
QUICK = runpy.run_path(str(SCRIPTS / "quick-tests"))
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


def test_a_changed_module_asks_for_the_tests_that_import_it() -> None:
    found = chosen("src/kernelcup/cli/show/tables.py", "src/kernelcup/reporting/insights.py")
    assert {"tests/unit/test_lessons.py", "tests/unit/cli/test_cli_render.py"} <= found
    assert "tests/unit/app/test_limits.py" not in found


def test_a_module_is_found_by_its_name_among_others_of_its_package() -> None:
    assert "tests/unit/app/test_accounts.py" in chosen("src/kernelcup/app/people/audit_log.py")


def test_a_changed_test_asks_for_itself() -> None:
    assert chosen("tests/unit/test_wording.py") == {"tests/unit/test_wording.py"}
    assert chosen("docs/index.md") == set()


def test_a_changed_module_of_a_package_asks_for_its_tests() -> None:
    found = chosen("packages/kernelcup-github/src/kernelcup_github/api.py")
    assert found == {"packages/kernelcup-github/tests/test_github.py"}


def check(folder: Path, message: str) -> str:
    """Return what is said against a message, nothing where it is taken."""
    file = folder / "COMMIT_EDITMSG"
    file.write_text(message, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(MESSAGE), str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == bool(done.stderr)
    return done.stderr


def chosen(*changed: str) -> set[str]:
    """Return the tests of some changed files."""
    found = QUICK["tests_of"]([Path(each) for each in changed], list(QUICK["unit_tests"]()))
    return {str(each) for each in found}


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
