"""What a person is told of null submissions, and which of them a task may waive."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_builders import problems_of, write_task

from kernelcup.domain import Task
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.null_report import Outcome, Waived, outcome_object, weigh
from kernelcup_harness.protocol.lint import CaseList, LintFinding, LintReport, Null, Severity

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
    assert [error.text for error in outcome.errors] == ["the task was not tried to the end: it ended"]


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


ALL_CASES = [(CaseList.TESTS, 0), (CaseList.TESTS, 1), (CaseList.BENCHMARKS, 0)]


def test_a_part_that_the_checker_ignores_is_one_finding(tmp_path):
    found = [
        finding(list=name, index=index, null=null, how=f"{null.value}, in output[1] only", part="output[1]")
        for name, index in ALL_CASES
        for null in Null
    ]
    _task, outcome = weighed(tmp_path, *found)
    (problem,) = outcome.errors
    assert outcome.warnings == []
    line = str(problem).replace(f"{tmp_path}/t/", "")
    assert line.startswith("task.yml:6:5: tests.0: the checker ignores `output[1]`: it accepts `zeros`")
    assert "`uninitialised`" in line
    assert "in tests.0, tests.1, benchmarks.0;" in line


def test_a_checker_that_takes_a_constant_and_the_answer_to_another_input_ignores_the_answer(tmp_path):
    accepted = [finding(null=null, how=null.value) for null in (Null.OTHER_SEED, Null.ONES)]
    _task, outcome = weighed(tmp_path, *accepted)
    assert [str(each).partition(": it")[0] for each in outcome.errors] == [
        f"{tmp_path}/t/task.yml:7:5: tests.1: the checker ignores the answer"
    ]
    _task, outcome = weighed(tmp_path, accepted[1])
    assert "ignores" not in str(outcome.errors[0])


def test_findings_that_differ_by_their_case_only_become_one(tmp_path):
    found = [finding(list=name, index=index) for name, index in ALL_CASES]
    _task, outcome = weighed(tmp_path, *found, finding(null=Null.ONES))
    assert [problem.key for problem in outcome.errors] == ["tests.0", "tests.1"]
    assert "(and in tests.1, benchmarks.0): do something" in outcome.errors[0].text


def test_a_fault_of_the_tasks_own_code_is_told_at_its_case(tmp_path):
    fault = {"fault": "the task's generate_input failed: no", "fault_list": CaseList.BENCHMARKS}
    _task, outcome = weighed(tmp_path, **fault)
    (problem,) = outcome.errors
    assert str(problem).replace(f"{tmp_path}/t/", "") == (
        "task.yml:9:5: benchmarks.0: the task's generate_input failed: no"
    )


CALLS_S = {"generate_input": 71.0, "ref_kernel": 3.25, "check_implementation": 1.0}
MEASURED = {"stage_s": 90.3, "calls_s": CALLS_S, "reference_s": [3.1]}


def test_what_a_ranked_run_takes_is_a_note(tmp_path):
    _task, outcome = weighed(tmp_path, **{**MEASURED, "stage_s": 7.2})
    (note,) = outcome.notes
    assert note == (
        "a ranked run takes at most 7 s beside its tests if calls are as slow as the reference's: "
        "generate_input 71.0 s, ref_kernel 3.2 s, check_implementation 1.0 s"
    )
    assert outcome.warnings == []


def test_a_ranked_run_that_people_wait_long_for_is_a_warning_with_what_helps(tmp_path):
    _task, outcome = weighed(tmp_path, **MEASURED)
    assert (outcome.errors, outcome.notes) == ([], [])
    (warning,) = outcome.warnings
    assert "takes at most 90 s" in warning.text
    assert warning.text.endswith(
        "; that is more than 90 s, so make the benchmarks smaller or generate_input quicker "
        "(have it draw whole tensors, on the device where it can)"
    )
