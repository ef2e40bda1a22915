"""Seeds in ``task.yml``: the bound of those that are drawn, and the cases' own."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_builders import problems_of, write_task

from kernelcup.tasks.loader import load_task
from kernelcup.tasks.null_report import weigh
from kernelcup_harness.protocol.lint import LintReport

YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
benchmarks:
  - {size: 64, seed: 2}
"""


@pytest.mark.parametrize("below", [1 << 20, (1 << 63) - 1])
def test_a_task_says_below_which_bound_seeds_are_drawn(tmp_path: Path, below: int) -> None:
    assert load_task(write_task(tmp_path / "t", seeds_below=below)).seeds_below == below


@pytest.mark.parametrize(
    ("below", "words"),
    [
        ((1 << 20) - 1, "must be at least 1048576"),
        (1 << 63, "does not fit into 64 bits"),
        ("2^24", "must be a whole number, not text"),
        (True, "must be a whole number, not a boolean"),
    ],
)
def test_a_bound_that_cannot_be_is_refused(tmp_path: Path, below: object, words: str) -> None:
    (line,) = problems_of(write_task(tmp_path / "t", seeds_below=below))
    assert f"seeds_below: {words}" in line


def told(folder: Path, yml: str = YML, **found) -> list[str]:
    place = write_task(folder / "t", yml)
    outcome = weigh(load_task(place), LintReport(**found), place)
    assert outcome.errors == []
    return [str(each).replace(f"{place}/", "") for each in outcome.warnings]


def test_inputs_that_follow_from_few_seeds_alone_are_a_warning(tmp_path: Path) -> None:
    (line,) = told(tmp_path, YML + "seeds_below: 1048576\n", seeds_below=1 << 20, seeds_open=True)
    assert line.startswith("task.yml:7:14: seeds_below: the answers of all seeds can be computed beforehand")
    assert "torch, NumPy or random" in line


def test_a_bound_that_is_written_already_is_not_proposed(tmp_path: Path) -> None:
    assert told(tmp_path, YML + "seeds_below: 1048576\n", seeds_below=1 << 20) == []


@pytest.mark.parametrize(
    ("seed", "kind"),
    [("eleven", "text"), ("1.5", "a number with a fraction"), ("true", "a boolean"), ("[1]", "a list")],
)
def test_a_cases_seed_is_a_whole_number(tmp_path: Path, seed: str, kind: str) -> None:
    (line,) = problems_of(write_task(tmp_path / "t", YML.replace("seed: 2", f"seed: {seed}")))
    words = f"must be a whole number, not {kind}"
    assert line == f"task.yml:6:22: benchmarks.0.seed: {words}"
