"""Collect the problems of one YAML file and of all files that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelcup.errors import InvalidTask, Problem
from kernelcup.tasks.manifest.yaml_text import Document, Path, Position


@dataclass(slots=True)
class Findings:
    """The problems found so far, in order."""

    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        for flaw in self.document.flaws:
            self._add(self.file, flaw.position, flaw.path, flaw.text)

    def at_value(self, path: Path, text: str) -> None:
        """Add a problem with the value at ``path``."""
        self._add(self.file, self.document.position(path), path, text)

    def at_key(self, path: Path, text: str) -> None:
        """Add a problem with the key at ``path``, or with its absence."""
        self._add(self.file, self.document.key_position(path), path, text)

    def elsewhere(self, file: str, position: Position, text: str, key: str = "") -> None:
        """Add a problem with another file."""
        line, column = position
        self.problems.append(Problem(file=file, line=line, column=column, key=key, text=text))

    def _add(self, file: str, position: Position, path: Path, text: str) -> None:
        self.elsewhere(file, position, text, ".".join(str(part) for part in path))

    def raise_any(self) -> None:
        """Raise :class:`InvalidTask` with all problems, sorted by file and line, if there are any."""
        raise_problems(self.problems)


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raise :class:`InvalidTask` with ``problems``, each once, sorted by file and line, if there are any."""
    if problems:
        unique = dict.fromkeys(problems)
        raise InvalidTask(sorted(unique, key=lambda each: (each.file, each.line, each.column)))


def single_problem(file: str, text: str, position: Position = (1, 1)) -> InvalidTask:
    """Return the error for a single problem that stops all further reading."""
    return InvalidTask([Problem(file=file, line=position[0], column=position[1], text=text)])
