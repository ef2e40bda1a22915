"""Turns what null submissions found out about a task into problems, warnings and notes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from kernelcup.domain import Task
from kernelcup.errors import Problem
from kernelcup.tasks.folder import TASK_FILE
from kernelcup.tasks.waivers import KEY
from kernelcup.tasks.yaml_text import Document, read_yaml
from kernelcup_harness.lint_protocol import LintFinding, LintReport, Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Waived:
    """Null submissions of one kind that were accepted, and may be."""

    null: str
    reason: str
    cases: list[str]
    """Where, such as ``tests.0``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a person is told of a task's trial."""

    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    waived: list[Waived] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tried: int = 0
    """How many answers the checker was asked about."""


def weigh(task: Task, report: LintReport, place: Path) -> Outcome:
    """Return what of ``report`` is wrong with the task at ``place``, considering its waivers."""
    lines = _Lines(place)
    counted = [each for each in report.findings if each.null.value not in task.waive_nulls]
    errors = [lines.finding(each) for each in counted if each.severity is Severity.ERROR]
    warnings = [lines.finding(each) for each in counted if each.severity is Severity.WARNING]
    if report.fault:
        errors.append(lines.problem((), f"the null submissions were not tried to the end: {report.fault}"))
    else:
        warnings += [lines.problem((KEY, name), UNNEEDED) for name in _unneeded(task, report)]
    return Outcome(
        errors=errors,
        warnings=warnings,
        waived=_waived(task, report),
        notes=_merged(report.notes),
        tried=report.tried,
    )


UNNEEDED = "is not needed: no case accepts this null submission"


def outcome_object(outcome: Outcome) -> dict[str, object]:
    """Return an outcome's parts beside its problems, as ``--json`` has them."""
    return {
        "waived": [dataclasses.asdict(each) for each in outcome.waived],
        "notes": outcome.notes,
        "nulls_tried": outcome.tried,
    }


def _unneeded(task: Task, report: LintReport) -> list[str]:
    found = {each.null.value for each in report.findings}
    return [name for name in task.waive_nulls if name not in found]


def _waived(task: Task, report: LintReport) -> list[Waived]:
    places = {
        name: [_case(each) for each in report.findings if each.null.value == name]
        for name in task.waive_nulls
    }
    return [
        Waived(null=name, reason=task.waive_nulls[name], cases=list(dict.fromkeys(cases)))
        for name, cases in places.items()
        if cases
    ]


def _merged(notes: list[str]) -> list[str]:
    """Return the notes, each with all cases that it is about."""
    cases: dict[str, list[str]] = {}
    for note in notes:
        case, _, text = note.partition(": ")
        cases.setdefault(text, []).append(case)
    return [f"{', '.join(dict.fromkeys(where))}: {text}" for text, where in cases.items()]


def _case(finding: LintFinding) -> str:
    return f"{finding.list.value}.{finding.index}"


class _Lines:
    """Knows the lines of a ``task.yml`` that can be read; a zip and a single file have none."""

    def __init__(self, place: Path) -> None:
        file = place / TASK_FILE if place.is_dir() else place
        self._file = str(file)
        readable = file.name == TASK_FILE and file.is_file()
        self._document = read_yaml(file.read_bytes()) if readable else Document()

    def problem(self, path: tuple[str | int, ...], text: str) -> Problem:
        line, column = self._document.position(path)
        key = ".".join(str(part) for part in path)
        return Problem(file=self._file, line=line, column=column, key=key, text=text)

    def finding(self, finding: LintFinding) -> Problem:
        case = ", ".join(f"{key}={value}" for key, value in finding.parameters.items()) or "no parameters"
        text = f"accepts `{finding.null.value}` ({finding.how}) for {case}: {finding.suggestion}"
        return self.problem((finding.list.value, finding.index), text)
