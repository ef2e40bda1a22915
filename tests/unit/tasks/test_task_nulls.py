"""What a person is told of null submissions, and which of them a task may waive."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_builders import SINGLE_FILE, problems_of, task_files, write_task, write_zip

from kernelcup.domain import Task
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.nulls import Outcome, Waived, outcome_object, weigh
from kernelcup_harness.lint_protocol import CaseList, LintFinding, LintReport, Null, Severity

YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
tests:
  - {size: 4, seed: 1}
  - {size: 5, seed: 1}
benchmarks:
  - {size: 64, seed: 2}
"""


def finding(**overrides) -> LintFinding:
    values = {
        "list": CaseList.TESTS,
        "index": 1,
        "parameters": {"size": 5, "seed": 1},
        "null": Null.ZEROS,
        "how": "all zeros",
        "severity": Severity.ERROR,
        "suggestion": "do something",
    }
    return LintFinding(**{**values, **overrides})


def weighed(folder: Path, *findings: LintFinding, yml: str = YML, **report) -> tuple[Task, Outcome]:
    place = write_task(folder / "t", yml)
    task = load_task(place)
    return task, weigh(task, LintReport(findings=list(findings), tried=9, **report), place)


def test_a_finding_names_the_line_of_its_case_the_null_and_what_to_do(tmp_path):
    _task, outcome = weighed(tmp_path, finding())
    (problem,) = outcome.errors
    assert str(problem) == (
        f"{tmp_path}/t/task.yml:7:5: tests.1: accepts `zeros` (all zeros) for size=5, seed=1: do something"
    )
    assert (outcome.warnings, outcome.waived, outcome.tried) == ([], [], 9)


def test_a_finding_of_little_weight_is_a_warning(tmp_path):
    _task, outcome = weighed(tmp_path, finding(severity=Severity.WARNING, null=Null.LOWER_PRECISION))
    assert outcome.errors == []
    assert [warning.key for warning in outcome.warnings] == ["tests.1"]


def test_a_waived_null_is_listed_with_its_reason_and_counts_no_more(tmp_path):
    both = [finding(), finding(list=CaseList.BENCHMARKS, index=0), finding(null=Null.ONES)]
    _task, outcome = weighed(tmp_path, *both, yml=YML + "waive_nulls: {zeros: nothing to compute}\n")
    assert outcome.waived == [
        Waived(null="zeros", reason="nothing to compute", cases=["tests.1", "benchmarks.0"])
    ]
    assert ["`ones`" in error.text for error in outcome.errors] == [True]
    assert outcome_object(outcome) == {
        "waived": [{"null": "zeros", "reason": "nothing to compute", "cases": ["tests.1", "benchmarks.0"]}],
        "notes": [],
        "nulls_tried": 9,
    }


def test_a_waiver_that_is_not_needed_is_a_warning(tmp_path):
    _task, outcome = weighed(tmp_path, yml=YML + "waive_nulls: {ones: so}\n")
    (warning,) = outcome.warnings
    assert str(warning) == (
        f"{tmp_path}/t/task.yml:10:21: waive_nulls.ones: is not needed: no case accepts this null submission"
    )


def test_a_trial_that_was_cut_off_is_an_error_and_says_nothing_about_waivers(tmp_path):
    _task, outcome = weighed(tmp_path, yml=YML + "waive_nulls: {ones: so}\n", fault="it ended")
    assert outcome.warnings == []
    assert [error.text for error in outcome.errors] == [
        "the null submissions were not tried to the end: it ended"
    ]


def test_equal_notes_of_several_cases_become_one(tmp_path):
    _task, outcome = weighed(tmp_path, notes=["tests.0: a: b", "tests.1: a: b", "tests.1: c"])
    assert outcome.notes == ["tests.0, tests.1: a: b", "tests.1: c"]


@pytest.mark.parametrize("kind", ["zip", "single file"])
def test_tasks_without_lines_are_told_by_file(tmp_path, kind):
    if kind == "zip":
        place = write_zip(tmp_path / "t.zip", task_files())
    else:
        place = tmp_path / "t.py"
        place.write_text(SINGLE_FILE)
    outcome = weigh(load_task(place), LintReport(findings=[finding()]), place)
    assert str(outcome.errors[0]).startswith(f"{place}:1:1: tests.1: accepts `zeros`")


@pytest.mark.parametrize("null", Null)
def test_every_null_can_be_waived(tmp_path, null):
    task = load_task(write_task(tmp_path / "t", waive_nulls={null.value: "for a reason"}))
    assert task.waive_nulls == {null.value: "for a reason"}


@pytest.mark.parametrize(
    ("waivers", "words"),
    [
        (
            {"copy_of_inputs": "why"},
            "waive_nulls.copy_of_inputs: is no null submission; did you mean `copy_of_input`?",
        ),
        ({"zeros": ""}, "waive_nulls.zeros: must say why this answer may be accepted"),
        ({"zeros": "  "}, "waive_nulls.zeros: must say why this answer may be accepted"),
        ({"zeros": None}, "waive_nulls.zeros: must be text, not nothing"),
        ({"zeros": True}, "waive_nulls.zeros: must be text, not a boolean"),
        (["zeros"], "waive_nulls: must be a mapping, not a list"),
    ],
)
def test_a_waiver_needs_a_known_name_and_a_reason(tmp_path, waivers, words):
    (line,) = problems_of(write_task(tmp_path / "t", waive_nulls=waivers))
    assert words in line


@pytest.mark.parametrize("key", ["near_twins", "aliasing"])
def test_what_is_said_of_the_data_is_true_or_false(tmp_path, key):
    (line,) = problems_of(write_task(tmp_path / "t", **{key: "no"}))
    assert f"{key}: must be true or false, not text" in line
