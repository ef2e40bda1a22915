"""Loads a problem set: a YAML file that names task folders, their boards and deadlines."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kernelcup.domain import Task
from kernelcup.errors import InvalidTask
from kernelcup.tasks.findings import Findings, single_problem
from kernelcup.tasks.folder import TASK_FILE, load_folder
from kernelcup.tasks.loader import require
from kernelcup.tasks.schema import ProblemEntryShape, ProblemSetShape
from kernelcup.tasks.trees import FolderTree, Unreadable, reject_odd_target
from kernelcup.tasks.validation import validate
from kernelcup.tasks.yaml_text import read_yaml


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemEntry:
    """One task of a problem set, and the leaderboard that is meant for it."""

    name: str
    directory: str
    deadline: str
    """Its own, else the set's; as written, may be empty."""
    devices: tuple[str, ...]
    """Its own ``gpus``, else the task's."""
    task: Task


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemSet:
    """Tasks that belong together."""

    name: str
    description: str
    deadline: str
    problems: tuple[ProblemEntry, ...]


def load_problem_set(path: Path) -> ProblemSet:
    """Load the set at ``path`` and all its tasks; its folder is the root that ``../x`` may reach.

    Raise ``InvalidTask`` with the problems of the set and of every task, ``NotFound`` without a file.
    """
    require(path)
    place = path.resolve()
    try:
        content = FolderTree(place.parent, "", path.parent).read(place.name)
    except Unreadable as error:
        raise single_problem(str(path), str(error)) from error
    findings = Findings(str(path), read_yaml(content))
    raw = findings.document.value
    shape = None
    if raw is not None or not findings.problems:
        shape = validate(ProblemSetShape, raw, (), findings)
    entries = raw.get("problems") if isinstance(raw, dict) else None
    problems = _Entries(path, findings).read(entries if isinstance(entries, list) else [])
    if shape is not None:
        _check_deadline(("deadline",), shape.deadline, findings)
    findings.raise_any()
    assert shape is not None  # or there would have been a problem
    return ProblemSet(
        name=shape.name,
        description=shape.description,
        deadline=shape.deadline,
        problems=tuple(_entry(entry, task, shape.deadline) for entry, task in problems),
    )


def _entry(shape: ProblemEntryShape, task: Task, deadline: str) -> ProblemEntry:
    return ProblemEntry(
        name=shape.name,
        directory=shape.directory,
        deadline=shape.deadline or deadline,
        devices=tuple(shape.gpus or task.devices),
        task=task,
    )


class _Entries:
    """One reading of the list ``problems``."""

    def __init__(self, path: Path, findings: Findings) -> None:
        self.root = path.resolve().parent
        self.shown = path.parent
        self.findings = findings
        self.names: dict[str, int] = {}

    def read(self, entries: list[object]) -> list[tuple[ProblemEntryShape, Task]]:
        result = []
        for index, raw in enumerate(entries):
            shape = validate(ProblemEntryShape, raw, ("problems", index), self.findings)
            if shape is None:
                continue
            self.take_name(index, shape.name)
            _check_deadline(("problems", index, "deadline"), shape.deadline, self.findings)
            task = self.task(index, shape.directory)
            if task is not None:
                result.append((shape, task))
        return result

    def take_name(self, index: int, name: str) -> None:
        first = self.names.setdefault(name, index)
        if first != index:
            path = ("problems", index, "name")
            self.findings.at_value(path, f"`{name}` is the name of problems.{first} already")

    def task(self, index: int, directory: str) -> Task | None:
        base = directory.rstrip("/")
        tree = FolderTree(self.root, base, self.shown / base)
        try:
            reject_odd_target(base)
            tree.read(posixpath.join(base, TASK_FILE))
        except Unreadable as error:
            text = f"`{directory}` cannot be used: its `{TASK_FILE}` {error}"
            self.findings.at_value(("problems", index, "directory"), text)
            return None
        try:
            return load_folder(tree, base, posixpath.basename(base))
        except InvalidTask as error:
            self.findings.problems.extend(error.problems)
            return None


def _check_deadline(path: tuple[str | int, ...], text: str, findings: Findings) -> None:
    if text and not _is_date(text):
        findings.at_value(path, f"{text!r} is no date; `2026-06-30` and `2026-06-30 7:59` are")


def _is_date(text: str) -> bool:
    day, *rest = text.replace("T", " ").split(maxsplit=1)
    time = "".join(rest)
    if time[1:2] == ":":
        time = f"0{time}"  # hours without a leading zero occur in existing sets
    try:
        datetime.fromisoformat(f"{day} {time}".strip())
    except ValueError:
        return False
    return True
