"""Which languages a task takes, and the template that is made for one that has none."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from builders import REFERENCE, make_task
from kernelcup.domain import Language, TaskForm
from kernelcup.tasks.starter import all_templates, find_template
from kernelcup.tasks.writer import template_files
from kernelcup_harness.protocol import HarnessKind
from kernelcup_harness.submission.cuda import compiling
from kernelcup_harness.submission.cuda.libraries import find_nvcc

STANDARD, OWN = HarnessKind.STANDARD, HarnessKind.OWN
BOTH, PYTHON, CUDA = (Language.PYTHON, Language.CUDA), (Language.PYTHON,), (Language.CUDA,)


@pytest.mark.parametrize(
    ("overrides", "harness", "accepted"),
    [
        ({}, STANDARD, BOTH),
        ({}, OWN, PYTHON),
        ({"sources": {"reference.py": REFERENCE.replace("ref_kernel", "right")}}, STANDARD, PYTHON),
        ({"accepts": [Language.PYTHON]}, STANDARD, PYTHON),
        ({"accepts": [Language.CUDA]}, STANDARD, CUDA),
        ({"lang": Language.CUDA}, STANDARD, CUDA),
        ({"form": TaskForm.SINGLE_FILE}, STANDARD, BOTH),
    ],
)
def test_a_task_takes_its_languages(
    overrides: dict[str, object], harness: HarnessKind, accepted: tuple[Language, ...]
) -> None:
    assert make_task(**overrides).accepted(harness) == accepted


def test_a_python_task_has_a_template_in_each_language() -> None:
    task = make_task(templates={"Triton": "import triton\n"})
    templates = all_templates(task, STANDARD)

    assert list(templates) == ["Triton", "CUDA C++"]
    assert find_template(task, templates, "cu") == find_template(task, templates, "cuda c++") == "CUDA C++"
    assert find_template(task, templates, "CUDA") == find_template(task, templates, "cuda") == "CUDA C++"
    assert find_template(task, templates, "py") == find_template(task, templates, "Python") == "Triton"
    assert find_template(task, templates, "rust") is None
    assert task.submission_name_of(templates["CUDA C++"]) == "submission.cu"
    assert task.submission_name_of(templates["Triton"]) == "submission.py"


def test_no_template_is_made_for_a_language_that_has_one_or_is_not_taken() -> None:
    own = make_task(templates={"Mine": "int custom_kernel(const kc_args *inputs);\n"})

    assert list(all_templates(own, STANDARD)) == ["Mine"]
    assert template_files(own) == {"Mine": "template_mine.cu"}
    assert all_templates(make_task(), OWN) == {}


def test_none_is_made_for_several_gpus_where_it_could_not_communicate() -> None:
    task = make_task(multi_gpu=True)
    assert "CUDA C++" in all_templates(dataclasses.replace(task, multi_gpu=False), STANDARD)
    assert "CUDA C++" not in all_templates(task, STANDARD)


def test_a_leaderboard_in_cpp_has_a_template_in_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"reference.cpp": "int ref_kernel(const kc_args *inputs) {}"}
    task = make_task(lang=Language.CUDA, sources=sources, submission_name="submission.cpp")
    text = all_templates(task, STANDARD)["CUDA C++"]
    (tmp_path / "submission.cpp").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "KERNELCUP_CUDA_DIR": str(tmp_path / "made")}

    assert "reference.cpp" in text
    assert "__global__" not in text
    assert template_files(dataclasses.replace(task, templates={"Mine": text})) == {
        "Mine": "template_mine.cpp"
    }
    assert compiling.compiled(Path("submission.cpp"), environment).read_bytes()[:4] == b"\x7fELF"


@pytest.mark.jobs
@pytest.mark.skipif(find_nvcc(os.environ) is None, reason="needs nvcc")
def test_the_made_template_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = all_templates(make_task(), STANDARD)["CUDA C++"]
    (tmp_path / "submission.cu").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    found = compiling.compiled(
        Path("submission.cu"), {**os.environ, "KERNELCUP_CUDA_DIR": str(tmp_path / "made")}
    )

    assert found.read_bytes()[:4] == b"\x7fELF"
