"""Every file under a ``solutions/`` folder is judged as its ``expected.yml`` says.

A task's ``solutions/expected.yml`` maps a file, seen from there, to one expectation or a list of
them. An expectation is a mapping:

``verdict``  what the report must say; required
``mode``     ``test`` (the default), ``benchmark``, ``profile`` or ``leaderboard``
``harness``  ``own`` or ``standard``; without it both, or ``standard`` for a task without its own
``case``     the index of the first case that is not accepted
``message``  a regular expression that is found in what the report says of the failure
``limits``   fields of ``Limits`` to replace, such as ``{test_s: 5}`` for a file that hangs
``rules``    fields of ``MeasureRules`` to replace
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from judging import (
    EXAMPLES,
    QUICK_RULES,
    as_sent,
    first_bad_case,
    lacks,
    loaded,
    needs_triton,
    read_yaml,
    run_harness,
    task_path,
    what_was_said,
)

from kernelcup.tasks.job_spec import build_job_spec
from kernelcup.tasks.problem_set import check_path, load_problem_set
from kernelcup.tasks.shared import eval as lent
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, RunReport, Verdict
from warm_harness import Run

HERE = Path(__file__).parent
QUICK = {"identity-py-template", "identity-py-wrong_tail"}
QUICK |= {"string_checker-template-own", "string_checker-wrong_past_1024-own"}
"""What `make test` judges: a right and a wrong answer to each harness, with torch imported already."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One line of an ``expected.yml``: what to run, and what must come of it."""

    folder: Path
    file: Path
    verdict: Verdict
    harness: HarnessKind
    mode: Mode = Mode.TEST
    case: int | None = None
    message: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        name = f"{self.folder.name}-{self.file.stem if self.file.suffix == '.py' else self.file.name}"
        extra = [self.harness.value] if self.harness is HarnessKind.OWN else []
        extra += [self.mode.value] if self.mode is not Mode.TEST else []
        return "-".join([name, *extra])


def task_folders() -> list[Path]:
    """Return all folders that hold a task and files to judge by it."""
    found = [path.parent.parent for root in (EXAMPLES, HERE) for path in root.rglob("solutions/expected.yml")]
    return sorted(found)


def read_expected(folder: Path) -> dict[str, Any]:
    return read_yaml(folder / "solutions/expected.yml")


@cache
def expectations() -> tuple[Expectation, ...]:
    """Return every expectation of every task, once for each harness that it is about."""
    return tuple(
        expectation
        for folder in task_folders()
        for name, value in read_expected(folder).items()
        for entry in (value if isinstance(value, list) else [value])
        for expectation in expand(folder, name, dict(entry))
    )


def expand(folder: Path, name: str, entry: dict[str, Any]) -> Iterator[Expectation]:
    """Return one entry once for each harness. An unknown key or value is an error here."""
    named = entry.pop("harness", None)
    harnesses = (HarnessKind(named),) if named else harnesses_of(folder)
    entry["verdict"] = Verdict(entry["verdict"])
    entry["mode"] = Mode(entry.get("mode", "test"))
    file = (folder / "solutions" / name).resolve()
    for harness in harnesses:
        yield Expectation(folder=folder, file=file, harness=harness, **entry)


@cache
def harnesses_of(folder: Path) -> tuple[HarnessKind, ...]:
    # Not by the loader: a task that it refuses should fail its own tests, not the collection of all.
    own = task_path(folder) == folder and "config" in read_yaml(folder / "task.yml")
    return (HarnessKind.OWN, HarnessKind.STANDARD) if own else (HarnessKind.STANDARD,)


def judge(expected: Expectation, warm: Run) -> RunReport:
    """Judge the file: one of each kind as a launcher does, the others with torch imported already."""
    spec = build_job_spec(
        loaded(expected.folder),
        job_id=expected.id,
        submission=as_sent(expected.file),
        mode=expected.mode,
        backend=Backend.EMULATED,
        harness=expected.harness,
    )
    run = run_harness if expected in as_launched() else warm
    return run(adjusted(spec, expected))


@cache
def as_launched() -> list[Expectation]:
    """Return those that a whole process judges, in a sandbox: one of each kind, all ranked ones by own harnesses."""
    found: dict[Any, Expectation] = {}
    for each in expectations():
        ranked = each.mode is Mode.LEADERBOARD and each.verdict is Verdict.ACCEPTED
        kind = (each.harness, each.verdict, ranked, needs_triton(each.file), each.file.suffix == ".py")
        found.setdefault(each.id if ranked and each.harness is HarnessKind.OWN else kind, each)
    return list(found.values())


def adjusted(spec: JobSpec, expected: Expectation) -> JobSpec:
    """Apply the expectation's own limits and rules, and measure no longer than it takes to see."""
    rules = {**(QUICK_RULES if expected.mode is not Mode.TEST else {}), **expected.rules}
    return dataclasses.replace(
        spec,
        limits=dataclasses.replace(spec.limits, **expected.limits),
        rules=dataclasses.replace(spec.rules, **rules),
    )


def cases() -> list[Any]:
    """Return each expectation as a parameter; all but a right and a wrong one wait for `make test-jobs`."""
    marks = {True: [], False: [pytest.mark.jobs]}
    return [pytest.param(each, id=each.id, marks=marks[each.id in QUICK]) for each in expectations()]


@pytest.mark.parametrize("expected", cases())
def test_the_verdict_is_the_expected_one(expected: Expectation, warm: Run) -> None:
    if missing := lacks(expected.file):
        pytest.skip(f"needs {missing}")
    report = judge(expected, warm)
    about = f"{what_was_said(report)}\n{report.stderr.text}\nseed {report.secret_seed}"
    assert report.verdict is expected.verdict, about
    assert report.harness is expected.harness
    if expected.case is not None:
        assert first_bad_case(report) == expected.case, about
    assert re.search(expected.message, what_was_said(report)), about
    # What the participant is shown is about their file, not about our process around it.
    assert "kernelcup_harness" not in report.stderr.text
    if expected.verdict is Verdict.ACCEPTED:
        assert all(stage.planned_cases == len(stage.cases) for stage in report.stages)


@pytest.mark.parametrize("folder", [pytest.param(folder, id=folder.name) for folder in task_folders()])
def test_the_task_has_no_faults_and_no_file_without_an_expectation(folder: Path) -> None:
    assert check_path(task_path(folder)) == ()
    listed = {(folder / "solutions" / name).resolve() for name in read_expected(folder)}
    present = {*folder.glob("solutions/*.[pc]*"), *folder.glob("template*.[pc]*")}
    assert {file.resolve() for file in present} == listed


@pytest.mark.jobs
def test_a_right_answer_of_another_dtype_is_accepted(warm: Run) -> None:
    listed = [each for each in expectations() if each.file.stem == "in_float32"]
    assert [each.mode for each in listed] == [Mode.TEST, Mode.LEADERBOARD]
    assert {judge(each, warm).verdict for each in listed} == {Verdict.ACCEPTED}


# `held`, since `--base` takes the tests from here.
def test_few_cases_import_torch_anew() -> None:
    assert len(as_launched()) < len(expectations()) / 4
    assert {each.harness for each in as_launched()} == set(HarnessKind)


def test_every_verdict_is_reached() -> None:
    assert {expected.verdict for expected in expectations()} == set(Verdict)


def test_no_two_expectations_have_one_name() -> None:
    names = [expected.id for expected in expectations()]
    assert sorted(names) == sorted(set(names))


def test_the_problem_set_lists_the_contract_tasks() -> None:
    problems = load_problem_set(HERE / "contract/contract.yaml").problems
    folders = {path.name for path in (HERE / "contract").iterdir() if (path / "task.yml").exists()}
    assert {problem.directory for problem in problems} == folders


def test_the_text_form_of_cases_keeps_their_types() -> None:
    """The lent harness reads back what the runner writes."""
    line = "sizes: [3, 5]; negate: False; deep: True; rounding: floor; seed: -11; none: []; p: 1.5e-3"
    assert lent.parse_case(line) == {
        "sizes": [3, 5],
        "negate": False,
        "deep": True,
        "rounding": "floor",
        "seed": -11,
        "none": [],
        "p": 0.0015,
    }
    for bad in ("sizes", "size: a b", "size: ; seed: 1", "5: 5", ""):
        with pytest.raises(lent.BadCase):
            lent.parse_case(bad)
