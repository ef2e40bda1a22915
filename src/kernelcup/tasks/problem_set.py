"""Load a problem set: a YAML file that names task folders, their boards and deadlines."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kernelcup.domain import Task
from kernelcup.errors import InvalidTask, Problem
from kernelcup.tasks.folder import TASK_FILE, load_folder
from kernelcup.tasks.loader import load_task, require
from kernelcup.tasks.manifest.problems import Findings, raise_problems, single_problem
from kernelcup.tasks.manifest.schema import ProblemEntryShape, ProblemSetShape
from kernelcup.tasks.manifest.validation import validate
from kernelcup.tasks.manifest.yaml_text import read_yaml
from kernelcup.tasks.sources.roots import ENDINGS
from kernelcup.tasks.sources.trees import FolderTree, Unreadable, reject_odd_target
from kernelcup_harness.protocol import HarnessKind


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemEntry:
    """One task of a problem set, and its intended leaderboard."""

    name: str
    directory: str
    deadline: str
    """Its own deadline, else the set's; as written, may be empty."""
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
    survey = survey_problem_set(path)
    raise_problems([problem for broken in survey.broken for problem in broken.problems])
    return survey.problem_set


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenEntry:
    """One task of a problem set that cannot be used."""

    name: str
    """Its name in the set, or its index in the list."""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The usable part of a problem set, and its broken tasks."""

    problem_set: ProblemSet
    broken: tuple[BrokenEntry, ...]


def survey_problem_set(path: Path, *, shown: Path | None = None) -> Survey:
    """Load the set at ``path``, and separate its usable tasks from its broken ones.

    Args:
        path: The set's file; its folder is the root that ``../x`` may reach.
        shown: The file's name in problem lines.

    Raises:
        InvalidTask: The set itself has problems; the error also lists those of its tasks.
        NotFound: The file does not exist.
    """
    require(path)
    label = shown or path
    place = path.resolve()
    try:
        content = FolderTree(place.parent, "", label.parent).read(place.name)
    except Unreadable as error:
        raise single_problem(str(label), str(error)) from error
    findings = Findings(str(label), read_yaml(content))
    raw = findings.document.value
    shape = None
    if raw is not None or not findings.problems:
        shape = validate(ProblemSetShape, raw, (), findings)
    if shape is not None:
        _check_deadline(("deadline",), shape.deadline, findings)
    entries = raw.get("problems") if isinstance(raw, dict) else None
    reading = _Entries(place.parent, label.parent, findings)
    problems = reading.read(entries if isinstance(entries, list) else [])
    if findings.problems or shape is None:
        raise_problems([*findings.problems, *(each for broken in reading.broken for each in broken.problems)])
    assert shape is not None  # otherwise there would be a problem
    return Survey(
        problem_set=ProblemSet(
            name=shape.name,
            description=shape.description,
            deadline=shape.deadline,
            problems=tuple(_entry(entry, task, shape.deadline) for entry, task in problems),
        ),
        broken=tuple(reading.broken),
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

    def __init__(self, root: Path, shown: Path, findings: Findings) -> None:
        self.root = root
        self.shown = shown
        self.findings = findings
        self.names: dict[str, int] = {}
        self.broken: list[BrokenEntry] = []

    def read(self, entries: list[object]) -> list[tuple[ProblemEntryShape, Task]]:
        result = []
        for index, raw in enumerate(entries):
            before = len(self.findings.problems)
            found = self.entry(index, raw)
            problems = tuple(self.findings.problems[before:])
            if problems:
                del self.findings.problems[before:]
                self.broken.append(BrokenEntry(name=_name(raw, index), problems=problems))
            elif found is not None:
                result.append(found)
        return result

    def entry(self, index: int, raw: object) -> tuple[ProblemEntryShape, Task] | None:
        shape = validate(ProblemEntryShape, raw, ("problems", index), self.findings)
        if shape is None:
            return None
        self.take_name(index, shape.name)
        _check_deadline(("problems", index, "deadline"), shape.deadline, self.findings)
        task = self.task(index, shape.directory)
        return None if task is None else (shape, task)

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


def _name(raw: object, index: int) -> str:
    name = raw.get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) and name else f"problems.{index}"


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


def check_path(path: Path, harness: HarnessKind | None = None) -> tuple[Problem, ...]:
    """Return all problems of the task or problem set at ``path``, empty if there are none.

    ``harness`` overrides the harness that a task chooses itself.

    Raise ``NotFound`` if there is nothing at ``path``.
    """
    try:
        if path.suffix in ENDINGS and path.name != TASK_FILE and not path.is_dir():
            load_problem_set(path)
        else:
            load_task(path, harness=harness)
    except InvalidTask as error:
        return error.problems
    return ()
