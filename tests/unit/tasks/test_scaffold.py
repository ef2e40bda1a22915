from __future__ import annotations

import ast
import re

import pytest

from kernelcup.errors import Conflict, InvalidValue
from kernelcup.tasks.imports import import_task
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.problem_set import check_path
from kernelcup.tasks.scaffold import copy_example, new_task
from kernelcup.tasks.shipped import shipped_tasks


def test_a_new_task_has_no_problems(tmp_path):
    new_task(tmp_path / "deep" / "saxpy")
    assert check_path(tmp_path / "deep" / "saxpy") == ()


def test_all_written_files_are_named_and_readable(tmp_path):
    folder = tmp_path / "saxpy"
    files = new_task(folder)
    assert {str(path.relative_to(folder)) for path in files} == {
        "task.yml",
        "task.py",
        "reference.py",
        "template.py",
        "solutions/correct.py",
        "solutions/wrong.py",
    }
    for path in files:
        if path.suffix == ".py":
            ast.parse(path.read_text())


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(Conflict, match="is not empty"):
        new_task(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["", "a\nlang: cu", "x: y", "é", "a" * 65, "My Task", "docs"])
def test_a_name_that_no_leaderboard_can_have_is_refused(tmp_path, name):
    with pytest.raises(InvalidValue, match=f"^Task name {re.escape(repr(name))}"):
        new_task(tmp_path / "a", name=name)
    assert not (tmp_path / "a").exists()


def test_a_folder_whose_name_no_leaderboard_can_have_is_not_made(tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text("class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    folder = tmp_path / "My Task"
    for write in (
        lambda: new_task(folder),
        lambda: new_task(folder, name="mine"),
        lambda: copy_example(shipped_tasks()["identity-py"], folder),
        lambda: import_task(problem, folder),
    ):
        with pytest.raises(InvalidValue, match=r"^Task name 'My Task': expected at most 64 letters"):
            write()
    assert not folder.exists()


def test_a_copied_example_has_all_that_judges_it(tmp_path):
    source = shipped_tasks()["identity-py"]
    written = copy_example(source, tmp_path / "mine")
    assert {path.name for path in written} >= {"task.yml", "eval.py", "utils.py", "wrong_tail.py"}
    assert load_task(tmp_path / "mine").content_hash == load_task(source).content_hash


def test_the_older_single_file_is_copied_with_its_solutions(tmp_path):
    written = copy_example(shipped_tasks()["vectorsum_legacy"], tmp_path)
    assert written[0] == tmp_path / "reference_code.py"
    assert load_task(written[0]).tests == [{}]


def test_an_example_is_not_copied_over_something(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(Conflict, match="is not empty"):
        copy_example(shipped_tasks()["identity-py"], tmp_path)
