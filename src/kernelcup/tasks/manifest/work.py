"""Read ``work``: the least work of each timed case, from which the floor of credible times follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelcup.tasks.manifest.expressions import BadExpression, Expression
from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import TaskShape, WorkShape
from kernelcup.tasks.manifest.validation import validate
from kernelcup.tasks.manifest.yaml_text import Path
from kernelcup_harness.protocol import Parameters, Work

KEY = "work"
TIMED = ("benchmarks", "hidden_benchmarks")
AMOUNTS = ("bytes", "written", "flops", "link_bytes")


def is_override(key: str, value: object) -> bool:
    """Return whether an entry of a case declares its work; a parameter is never a mapping."""
    return key == KEY and isinstance(value, dict)


def parameters_of(case: Mapping[str, Any]) -> Parameters:
    """Return a case without its declared work."""
    return {key: value for key, value in case.items() if not is_override(key, value)}


def read_work(shape: TaskShape, findings: Findings) -> dict[str, list[Work]]:
    """Return the work of each timed case, by list; both lists are empty if the task declares none.

    Add problems for expressions that cannot be evaluated and for senseless amounts.
    """
    reading = _Reading(findings)
    general = _NOTHING if shape.work is None else reading.declared(shape.work, (KEY,))
    found: dict[str, list[Work]] = {key: [] for key in TIMED}
    for key in TIMED:
        for index, case in enumerate(getattr(shape, key)):
            if isinstance(case, dict):
                found[key].append(reading.of_case(general, case, (key, index)))
    said = any(work != Work() for works in found.values() for work in works)
    return found if said else {key: [] for key in TIMED}


@dataclass(frozen=True, slots=True)
class _Declared:
    """One mapping: expressions and their positions, by amount."""

    amounts: dict[str, tuple[Expression, Path]] = field(default_factory=dict)
    precision: str = ""


_NOTHING = _Declared()


class _Reading:
    """Reports each expression's fault once, however many cases show it."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._noted: set[Path] = set()

    def declared(self, raw: Any, path: Path) -> _Declared:
        shape = validate(WorkShape, raw, path, self._findings)
        if shape is None:
            return _NOTHING
        if shape == WorkShape():
            self._findings.at_value(path, f"must say at least one of {', '.join(AMOUNTS)}")
        texts = {amount: text for amount in AMOUNTS if (text := getattr(shape, amount)) is not None}
        read = {amount: self._expression(text, (*path, amount)) for amount, text in texts.items()}
        amounts = {amount: (each, (*path, amount)) for amount, each in read.items() if each is not None}
        return _Declared(amounts, shape.precision.value if shape.precision is not None else "")

    def of_case(self, general: _Declared, case: Mapping[str, Any], path: Path) -> Work:
        own = case.get(KEY)
        special = self.declared(own, (*path, KEY)) if isinstance(own, dict) else _NOTHING
        amounts = {**general.amounts, **special.amounts}
        values = {
            amount: self._value(expression, place, parameters_of(case), path)
            for amount, (expression, place) in amounts.items()
        }
        precision = special.precision or general.precision
        return Work(**values, precision=precision if "flops" in values else "")

    def _expression(self, text: str, place: Path) -> Expression | None:
        try:
            return Expression(text)
        except BadExpression as error:
            self._note(place, str(error))
        return None

    def _value(self, expression: Expression, place: Path, case: Parameters, path: Path) -> float | None:
        try:
            value = expression.value(case)
        except BadExpression as error:
            self._note(place, f"{error}, in {path[0]}.{path[1]}")
            return None
        if value <= 0:
            text = f"comes to {value:g} in {path[0]}.{path[1]}; it must be more than 0"
            self._note(place, text)
        return value

    def _note(self, place: Path, text: str) -> None:
        if place not in self._noted:
            self._noted.add(place)
            self._findings.at_value(place, text)
