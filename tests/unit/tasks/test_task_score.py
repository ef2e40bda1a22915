"""``ranking_by: speedup``, ``baseline``, ``weights`` and ``partial`` of a ``task.yml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelcup.domain import RankingBy, Task
from kernelcup.errors import InvalidTask
from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import Backend, HarnessKind, Mode, SourceTree

YAML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
benchmarks:
  - {size: 8, seed: 1}
  - {size: 16, seed: 1}
hidden_benchmarks:
  - {size: 32, seed: 1}
"""
REFERENCE = """\
def generate_input(size, seed): return size
def ref_kernel(data): return data
def check_implementation(data, output): return ""
"""


def load(tmp_path: Path, more: str, reference: str = REFERENCE) -> Task:
    (tmp_path / "solutions").mkdir(exist_ok=True)
    (tmp_path / "solutions/baseline.py").write_text("def custom_kernel(data): return data\n")
    (tmp_path / "reference.py").write_text(reference)
    (tmp_path / "task.yml").write_text(YAML + more)
    return load_task(tmp_path)


def test_a_baseline_of_the_folder_goes_to_the_judge_and_not_to_submissions(tmp_path: Path) -> None:
    task = load(
        tmp_path,
        "ranking_by: speedup\nbaseline: solutions/baseline.py\nweights: [1, 2, 0.5]\npartial: true\n",
    )
    assert (task.ranking_by, task.weights, task.partial) == (RankingBy.SPEEDUP, [1.0, 2.0, 0.5], True)
    spec = build_job_spec(
        task,
        job_id="1",
        submission=SourceTree.of("", "submission.py"),
        mode=Mode.LEADERBOARD,
        backend=Backend.EMULATED,
    )
    assert (spec.baseline, spec.weights, spec.partial) == ("solutions.baseline", task.weights, True)
    assert "solutions/baseline.py" in spec.sources
    assert "solutions/baseline.py" in spec.private_files


def test_the_reference_is_the_baseline_unless_a_file_is_named(tmp_path: Path) -> None:
    assert load(tmp_path, "ranking_by: speedup\n").baseline == ""


def test_another_baseline_or_weight_makes_results_incomparable(tmp_path: Path) -> None:
    tasks = [
        load(tmp_path, f"ranking_by: speedup\n{more}")
        for more in ("", "baseline: solutions/baseline.py\n", "weights: [1, 2, 3]\n", "partial: true\n")
    ]
    assert len({each.judging(HarnessKind.STANDARD) for each in tasks}) == 4


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("baseline: solutions/baseline.py\n", "is for `ranking_by: speedup` only"),
        ("ranking_by: geom\npartial: true\n", "is for `ranking_by: speedup` only"),
        ("ranking_by: speedup\nbaseline: solutions/none.py\n", "solutions/none.py"),
        ("ranking_by: speedup\nbaseline: base-line.py\n", "must be a Python file with `custom_kernel`"),
        ("ranking_by: speedup\nbaseline: submission.py\n", "is the name of submissions"),
        ("ranking_by: speedup\nweights: [1]\n", "expected 3 numbers"),
        ("ranking_by: speedup\nweights: [1, 0, 1]\n", "must be a number above 0"),
        ("ranking_by: speedup\nweights: [1, .inf, 1]\n", "must be a number above 0"),
        ("weights: [1, 1, 1]\n", "mean nothing with `ranking_by: last`"),
        ("ranking_by: speedup\npartial: true\nown_share: 0.5\n", "cannot stand beside `own_share`"),
    ],
)
def test_parts_that_make_no_sense_together_are_problems(tmp_path: Path, more: str, problem: str) -> None:
    with pytest.raises(InvalidTask, match=r"task\.yml:") as caught:
        load(tmp_path, more)
    assert problem in str(caught.value)


def test_a_speedup_needs_something_that_it_is_relative_to(tmp_path: Path) -> None:
    with pytest.raises(InvalidTask, match=r"needs a `baseline`, since reference\.py has no `ref_kernel`"):
        load(tmp_path, "ranking_by: speedup\n", REFERENCE.replace("ref_kernel", "other"))
