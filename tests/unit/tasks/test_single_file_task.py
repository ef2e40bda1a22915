from __future__ import annotations

import pytest
from task_builders import SINGLE_FILE, problems_of

from kernelcup.domain import Language, TaskForm
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.writer import write_task
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, SourceTree


def test_a_single_file_becomes_a_task(tmp_path):
    (tmp_path / "reference_code.py").write_text(SINGLE_FILE)
    task = load_task(tmp_path / "reference_code.py")
    assert task.name == "reference_code"
    assert task.form is TaskForm.SINGLE_FILE
    assert task.description == "Add two vectors."
    assert task.sources == {"reference.py": SINGLE_FILE}
    assert task.tests == task.benchmarks == [{}]
    assert task.harness is HarnessKind.STANDARD


def test_a_problem_of_another_contest_gets_one_line_that_says_what_to_do(tmp_path):
    for source in (
        "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n",
        "class Challenge:\n    def reference_impl(self, A, B, N): ...\n",
        "class relu:\n    def reference_solution(self, A): ...\n",
    ):
        (tmp_path / "r.py").write_text(source)
        (line,) = problems_of(tmp_path / "r.py")
        assert "is a problem of another contest" in line
        assert "kernelcup task import" in line


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


IN_C = """\
/* Scale a vector.
 *
 * By three. */
int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) { return 0; }
int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) { return 0; }
"""


@pytest.mark.parametrize(("ending", "submission"), [("cu", "cu"), ("cuh", "cu"), ("cpp", "cpp")])
def test_a_single_file_in_cuda_is_a_task_for_the_standard_harness(tmp_path, ending, submission):
    (tmp_path / f"scale.{ending}").write_text(IN_C)
    task = load_task(tmp_path / f"scale.{ending}")
    assert (task.name, task.lang, task.form) == ("scale", Language.CUDA, TaskForm.SINGLE_FILE)
    assert task.sources == {f"reference.{ending}": IN_C}
    assert task.description == "Scale a vector.\n\nBy three."
    assert (task.harness, task.submission_name) == (HarnessKind.STANDARD, f"submission.{submission}")
    spec = build_job_spec(
        task, job_id="a", submission=SourceTree.of("", "x.cu"), mode=Mode.TEST, backend=Backend.CUDA
    )
    assert spec.reference_module == f"reference.{ending}"
    assert spec.private_files == [f"reference.{ending}"]
    written = write_task(task, tmp_path / "written")
    assert load_task(written[0]) == task


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (IN_C.replace("ref_kernel", "other"), "has no `int ref_kernel("),
        (IN_C.replace("int generate_input", "// int generate_input"), "has no `int generate_input("),
        ("int generate_input() { return 0; }\nint ref_kernel() { return 0; }\n", "does not use `kc_args`"),
        ("", "has no `int generate_input("),
    ],
)
def test_a_single_file_in_cuda_without_its_functions_is_refused(tmp_path, text, missing):
    (tmp_path / "a.cu").write_text(text)
    assert f"a.cu:1:1: {missing}" in problems_of(tmp_path / "a.cu")[0]


def test_nothing_of_the_file_is_run(tmp_path):
    (tmp_path / "r.py").write_text(SINGLE_FILE + "raise SystemExit('ran')\n")
    assert load_task(tmp_path / "r.py").sources["reference.py"].endswith("raise SystemExit('ran')\n")
