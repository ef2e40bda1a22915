from __future__ import annotations

import pytest
from task_builders import SINGLE_FILE, problems_of

from kernelcup.domain import TaskForm
from kernelcup.errors import InvalidTask
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import HarnessKind


def test_a_single_file_becomes_a_task(tmp_path):
    (tmp_path / "reference_code.py").write_text(SINGLE_FILE)
    task = load_task(tmp_path / "reference_code.py")
    assert task.name == "reference_code"
    assert task.form is TaskForm.SINGLE_FILE
    assert task.description == "Add two vectors."
    assert task.sources == {"reference.py": SINGLE_FILE}
    assert task.tests == task.benchmarks == [{}]
    assert task.harness is HarnessKind.STANDARD


def test_a_problem_of_kernelbench_gets_one_line_that_says_what_to_do(tmp_path):
    source = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
    (tmp_path / "r.py").write_text(source)
    (line,) = problems_of(tmp_path / "r.py")
    assert "is a problem of KernelBench" in line
    assert "kernelcup task new" in line


def test_all_missing_functions_are_named(tmp_path):
    (tmp_path / "r.py").write_text("import torch\n")
    names = [line.split("`")[1] for line in problems_of(tmp_path / "r.py")]
    assert names == ["generate_input", "ref_kernel", "check_implementation"]


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("generate_input()", "generate_input(size)", "r.py:4:1: cannot be called as `generate_input()`"),
        ("ref_kernel(data)", "ref_kernel(a, b)", "r.py:8:1: cannot be called as `ref_kernel(data)`"),
        (
            "check_implementation(user_output, reference_output)",
            "check_implementation(output)",
            "r.py:12:1: cannot be called as `check_implementation(user_output, reference_output)`",
        ),
    ],
)
def test_a_function_with_other_parameters_is_refused(tmp_path, good, bad, words):
    (tmp_path / "r.py").write_text(SINGLE_FILE.replace(good, bad))
    assert problems_of(tmp_path / "r.py") == [words]


def test_parameters_that_may_stay_away_are_fine(tmp_path):
    text = SINGLE_FILE.replace("generate_input()", "generate_input(seed, size=4)")
    (tmp_path / "r.py").write_text(text.replace("ref_kernel(data)", "ref_kernel(*data)"))
    assert problems_of(tmp_path / "r.py") == []


def test_a_syntax_error_is_found_where_it_is(tmp_path):
    (tmp_path / "r.py").write_text("def f(:\n")
    assert problems_of(tmp_path / "r.py") == ["r.py:1:7: is not Python: invalid syntax"]


@pytest.mark.parametrize(("content", "words"), [(b"#\n\xff", "r.py:2:1: is not UTF-8"), (b"#\0", "NUL byte")])
def test_a_file_that_is_no_text_is_refused(tmp_path, content, words):
    (tmp_path / "r.py").write_bytes(content)
    assert words in problems_of(tmp_path / "r.py")[0]


@pytest.mark.parametrize("ending", ["cu", "cuh", "cpp"])
def test_a_single_cuda_file_comes_with_cuda_tasks(tmp_path, ending):
    (tmp_path / f"reference.{ending}").write_text("")
    with pytest.raises(InvalidTask, match="come with CUDA tasks"):
        load_task(tmp_path / f"reference.{ending}")


def test_nothing_of_the_file_is_run(tmp_path):
    (tmp_path / "r.py").write_text(SINGLE_FILE + "raise SystemExit('ran')\n")
    assert load_task(tmp_path / "r.py").sources["reference.py"].endswith("raise SystemExit('ran')\n")
