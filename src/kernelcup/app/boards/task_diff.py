"""The differences between two versions of a task, and whether results stay comparable."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelcup.domain import LEAVES_SCORES, Task
from kernelcup_harness.protocol import Parameters

LONGEST_DIFF_LINES = 4000
"""Longer files are counted as changed as a whole: the time of a diff grows with the square of the lines."""

Kind = Literal["added", "removed", "changed"]

# Why results before and after a change of a task's key cannot be ranked together. Every key but those in
# ``domain.LEAVES_SCORES`` is a reason, described by this table or else by its own name.
DECIDES_SCORES: Mapping[str, str] = {
    "lang": "the language changed",
    "form": "the form of the task changed",
    "main": "the task's own harness is another file",
    "cuda": "it is built in another way",
    "ranking_by": "the score is computed in another way",
    "baseline": "speedups are relative to another baseline",
    "weights": "the weights of benchmarks changed",
    "partial": "the score is computed in another way",
    "seed": "the public seed changed",
    "multi_gpu": "it runs on another number of GPUs",
    "libraries": "other libraries are available",
    "environment": "it runs in another environment",
    "near_twins": "the inputs for checking are made in another way",
    "aliasing": "other outputs are allowed",
    **dict.fromkeys(("non_finite", "wide_answers"), "other outputs are allowed"),
    "dtypes": "other outputs are allowed",
    "prepare_timeout": "submissions may do other work outside the time",
    "own_share": "other results rank",
    "submission_name": "submissions are stored under another name",
}
CASE_GROUPS = ("tests", "benchmarks")
_SHOWN_APART = {
    "name",
    "description",
    "figures",
    "templates",
    "harness",
    "sources",
    "data",
    "reference_s",
    *CASE_GROUPS,
}
SETTINGS = tuple(
    field.name
    for field in dataclasses.fields(Task)
    if field.name not in _SHOWN_APART and not field.name.startswith("hidden_")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """A change of one file, of a template or of the statement."""

    name: str
    """``template Python`` for a template, ``description`` for the statement."""
    kind: Kind
    added: int
    removed: int
    """Numbers of lines."""
    diff: str
    """A unified diff; empty for very long files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseChange:
    """A change of one public case."""

    group: str
    """``tests`` or ``benchmarks``."""
    kind: Kind
    old: Parameters | None
    new: Parameters | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskChanges:
    """All differences between two versions."""

    settings: Mapping[str, tuple[object, object]]
    files: tuple[FileChange, ...]
    cases: tuple[CaseChange, ...]
    hidden: Mapping[str, tuple[int, int]]
    """``hidden_tests`` and ``hidden_benchmarks`` if they changed: the old and the new number of cases."""
    reasons: tuple[str, ...]
    """Why results before and after cannot be compared; empty if they can."""


def compare(old: Task, new: Task) -> TaskChanges:
    """Return the differences between two versions of a task."""
    settings = {
        name: (getattr(old, name), getattr(new, name))
        for name in SETTINGS
        if getattr(old, name) != getattr(new, name)
    }
    sources = _files(old.sources, new.sources) + _files(_sums(old), _sums(new))
    cases = tuple(change for group in CASE_GROUPS for change in _cases(group, old, new))
    hidden = {
        name: (len(getattr(old, name)), len(getattr(new, name)))
        for name in ("hidden_tests", "hidden_benchmarks")
        if _texts(getattr(old, name)) != _texts(getattr(new, name))
    }
    texts = _files(_statement(old), _statement(new))
    reasons = [
        DECIDES_SCORES.get(name, f"{name.replace('_', ' ')} changed")
        for name in settings
        if name not in LEAVES_SCORES
    ]
    reasons += [f"{change.name} was {change.kind}" for change in sources]
    reasons += [f"{group} changed" for group in CASE_GROUPS if any(change.group == group for change in cases)]
    reasons += [f"{name.replace('_', ' ')} changed" for name in hidden]
    return TaskChanges(
        settings=settings,
        files=(*sources, *texts),
        cases=cases,
        hidden=hidden,
        reasons=tuple(reasons),
    )


def _sums(task: Task) -> dict[str, str]:
    """Return size and hash of each data file."""
    return {name: f"{size:,} bytes, sha256 {sha256}" for name, (size, sha256) in task.data_sums().items()}


def _statement(task: Task) -> dict[str, str]:
    templates = {f"template {language}": text for language, text in task.templates.items()}
    return {"description": task.description, **templates}


def _files(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[FileChange, ...]:
    names = sorted({*old, *new})
    return tuple(
        _file(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    )


def _file(name: str, old: str | None, new: str | None) -> FileChange:
    before, after = (old or "").splitlines(), (new or "").splitlines()
    kind: Kind = "added" if old is None else "removed" if new is None else "changed"
    if max(len(before), len(after)) > LONGEST_DIFF_LINES:
        return FileChange(name=name, kind=kind, added=len(after), removed=len(before), diff="")
    lines = list(difflib.unified_diff(before, after, f"old/{name}", f"new/{name}", lineterm=""))
    return FileChange(
        name=name,
        kind=kind,
        added=sum(line.startswith("+") for line in lines[2:]),
        removed=sum(line.startswith("-") for line in lines[2:]),
        diff="\n".join(lines),
    )


def _cases(group: str, old: Task, new: Task) -> list[CaseChange]:
    before: Sequence[Parameters] = getattr(old, group)
    after: Sequence[Parameters] = getattr(new, group)
    matcher = difflib.SequenceMatcher(None, _texts(before), _texts(after), autojunk=False)
    changes = []
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for offset in range(max(end - start, new_end - new_start)):
            was = before[start + offset] if start + offset < end else None
            becomes = after[new_start + offset] if new_start + offset < new_end else None
            kind: Kind = "added" if was is None else "removed" if becomes is None else "changed"
            changes.append(CaseChange(group=group, kind=kind, old=was, new=becomes))
    return changes


def _texts(cases: Sequence[Parameters]) -> list[str]:
    return [json.dumps(case, sort_keys=True) for case in cases]
