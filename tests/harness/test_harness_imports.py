"""Problems of other contests, made into task folders, and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelcup.domain import Language, Task
from kernelcup.errors import Conflict, InvalidTask, InvalidValue
from kernelcup.tasks.imports import convert, import_task
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend, Mode, RunReport, SourceTree, Verdict
from warm_harness import Run

FILES = Path(__file__).parents[1] / "data/imports"
PYTHON = sorted(FILES.glob("*.py"))
LEVELS = [each for each in PYTHON if each.name.startswith("level")]
SOLVES = sorted(FILES.glob("*.cu"))
STATED = ("level2", "level3", "level4")
"""Levels whose files have parameters."""


def imported(file: Path, folder: Path) -> Task:
    import_task(file, folder)
    return load_task(folder)


def judged(warm: Run, task: Task, code: str) -> RunReport:
    spec = build_job_spec(
        task,
        job_id="1",
        submission=SourceTree.of(code, task.submission_name),
        mode=Mode.TEST,
        backend=Backend.EMULATED,
    )
    return warm(spec)


def test_there_are_ten_problems_and_three_functions() -> None:
    assert (len(LEVELS), len(SOLVES)) == (10, 3)


def problems() -> list[Any]:
    """Return all problems in Python; all but the first wait for `make test-jobs`."""
    marks = {True: [], False: [pytest.mark.jobs]}
    return [pytest.param(each, id=each.stem, marks=marks[each is PYTHON[0]]) for each in PYTHON]


@pytest.mark.parametrize("file", problems())
def test_a_problem_in_python_is_judged_by_its_own_reference(warm: Run, tmp_path: Path, file: Path) -> None:
    task = imported(file, tmp_path / "task")
    report = judged(warm, task, (tmp_path / "task/solutions/correct.py").read_text())
    assert report.verdict is Verdict.ACCEPTED, report.message
    wrong = "def custom_kernel(data):\n    return None\n"
    assert judged(warm, task, wrong).verdict is Verdict.WRONG_ANSWER


@pytest.mark.jobs
@pytest.mark.parametrize("file", LEVELS, ids=[each.stem for each in LEVELS])
def test_weights_are_in_the_input_if_the_problem_has_any(warm: Run, tmp_path: Path, file: Path) -> None:
    code = "def custom_kernel(data):\n    print(sorted(data))\n    return None\n"
    report = judged(warm, imported(file, tmp_path / "task"), code)
    assert ("'state'" in report.stdout.text) == file.name.startswith(STATED)


@pytest.mark.parametrize("file", SOLVES, ids=[each.stem for each in SOLVES])
def test_a_solve_in_cuda_makes_a_leaderboard_in_cuda(tmp_path: Path, file: Path) -> None:
    task = imported(file, tmp_path / "task")
    assert task.lang is Language.CUDA
    assert file.read_text().rstrip() in task.sources["reference.cu"]


def test_sizes_that_a_signature_does_not_tell_are_named_as_guesses() -> None:
    assert not any(
        "guessed" in each for each in convert((FILES / "solve_add.cu").read_text(), "add.cu").notes
    )
    assert any("guessed" in each for each in convert((FILES / "solve_matmul.cu").read_text(), "m.cu").notes)


def test_what_works_in_place_has_its_array_as_input_and_output() -> None:
    reference = convert((FILES / "solve_invert.cu").read_text(), "invert.cu").files["reference.cu"]
    assert "cudaMemcpyAsync(image, in_image" in reference


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("from transformers import AutoModel", "imports transformers, which has to be installed"),
        ("drop = nn.Dropout(0.5)", "is random in each call"),
        ("A = torch.tril(torch.rand(4, 4))", "near_twins: false"),
    ],
)
def test_what_cannot_be_carried_is_named_with_its_line(line: str, note: str) -> None:
    text = (FILES / "level1_matmul.py").read_text()
    found = convert(f"{text}\n\n{line}\n", "problem.py").notes
    assert any(each.startswith(f"line {text.count(chr(10)) + 3} ") and note in each for each in found)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.py", "def f(): pass\n", "has no form that is known"),
        ("a.py", "def f(:\n", "a.py, line 1"),
        ("a.cu", "int main() { return 0; }\n", "defines no `void solve"),
        ("a.cu", "void solve(const float* A, int N) {}\n", "no pointer to write to"),
        ("a.cu", "void solve(std::vector<int> A) {}\n", "is no pointer to numbers"),
    ],
)
def test_a_file_of_no_known_form_is_refused_with_the_forms(name: str, text: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=r"^a\.") as caught:
        convert(text, name)
    assert told in str(caught.value)


def test_a_folder_that_has_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(Conflict):
        import_task(PYTHON[0], tmp_path)


def test_a_problem_given_as_a_task_names_the_command() -> None:
    with pytest.raises(InvalidTask, match="kernelcup task import"):
        load_task(FILES / "level1_matmul.py")
