"""Problems of a TOML file, with line and column and a suggestion.

The TOML parser keeps no positions, so they are looked up in the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

Keys = tuple[str | int, ...]
Position = tuple[int, int]

TABLE = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
PAIR = re.compile(r"""\s*((?:[A-Za-z0-9_.-]|"[^"]*"|'[^']*')+)\s*=\s*""")
QUOTES = re.compile(r'"""|\'\'\'')
PLACE = re.compile(r"(?P<text>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)$", re.DOTALL)


class Positions:
    """The positions of keys and values in a TOML file."""

    def __init__(self, text: str) -> None:
        self._keys: dict[Keys, Position] = {}
        self._values: dict[Keys, Position] = {}
        table: Keys = ()
        counts: dict[Keys, int] = {}
        inside = False  # inside a multi-line string
        for number, line in enumerate(text.splitlines(), 1):
            if not inside:
                table = self._take(number, line, table, counts)
            inside ^= len(QUOTES.findall(line)) % 2 == 1

    def key(self, path: Keys) -> Position:
        """Return the position of a key, or of the nearest table above it."""
        return self._nearest(path, self._keys)

    def value(self, path: Keys) -> Position:
        """Return the position of a value, or of the nearest table above it."""
        return self._nearest(path, self._values)

    def _take(self, number: int, line: str, table: Keys, counts: dict[Keys, int]) -> Keys:
        if found := TABLE.match(line):
            path = parts_of(found[2])
            if found[1] == "[[":
                counts[path] = counts.get(path, -1) + 1
                path = (*path, counts[path])
            self._note(path, (number, found.start(1) + 1), (number, found.start(1) + 1))
            return path
        if found := PAIR.match(line):
            self._note((*table, *parts_of(found[1])), (number, found.start(1) + 1), (number, found.end() + 1))
        return table

    def _note(self, path: Keys, key: Position, value: Position) -> None:
        self._keys.setdefault(path, key)
        self._values.setdefault(path, value)

    @staticmethod
    def _nearest(path: Keys, known: dict[Keys, Position]) -> Position:
        while path and path not in known:
            path = path[:-1]
        return known.get(path, (1, 1))


def parts_of(name: str) -> Keys:
    """Split a dotted key."""
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def syntax_problem(file: Path, text: str, error: tomllib.TOMLDecodeError) -> str:
    """Return one line about a file that is not TOML."""
    found = PLACE.match(str(error))
    if found is None:  # at its end
        last = text.splitlines() or [""]
        return f"{file}:{len(last)}:{len(last[-1]) + 1}: not TOML: {error}"
    return f"{file}:{found['line']}:{found['column']}: not TOML: {found['text']}"


def problems(file: Path, text: str, error: ValidationError, model: type[BaseModel]) -> str:
    """Return one line for each problem, sorted by line and column."""
    positions = Positions(text)
    lines = {problem(file, positions, each, model): None for each in error.errors(include_url=False)}
    return "\n".join(lines)


def problem(file: Path, positions: Positions, error: Any, model: type[BaseModel]) -> str:
    """Return one line about one problem."""
    from kernelcup.tasks.manifest.validation import explain

    path: Keys = tuple(error["loc"])
    at_key = error["type"] in ("extra_forbidden", "missing")
    line, column = positions.key(path) if at_key else positions.value(path)
    said = explain(error, allowed_at(model, path[:-1])).removeprefix("Value error, ")
    return f"{file}:{line}:{column}: {'.'.join(map(str, path))}: {said}"


def allowed_at(model: type[BaseModel], path: Keys) -> Iterable[str]:
    """Return the keys that a table may have."""
    for part in path:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        inner = None if field is None else model_in(field.annotation)
        if inner is None:
            return ()
        model = inner
    return list(model.model_fields)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation: the annotation itself, its items or one of its choices."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := model_in(each))), None)
