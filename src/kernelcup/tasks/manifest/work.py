"""Read ``work``: the least work of each timed case, from which the floor of credible times follows.

It is written as arithmetic expressions like ``2 * m * n * k`` over the keys of a case. Nothing is ever executed:
numbers, names, parentheses, ``+ - * / // **``, ``min`` and ``max`` are allowed. The syntax tree is walked here,
and every intermediate result is kept below :data:`LARGEST`, so that no text can cost much time or memory.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelcup import python_parser
from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import TaskShape, WorkShape
from kernelcup.tasks.manifest.validation import validate
from kernelcup.tasks.manifest.yaml_text import Path
from kernelcup_harness.protocol import Parameters, Work

MAX_LENGTH = 500
MAX_NODES = 200
LARGEST = 1e18
"""The largest result and intermediate result."""

Number = int | float

OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
SIGNS: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max}
ALLOWED = "numbers, keys of the case, parentheses, + - * / // **, min(...) and max(...)"


class BadExpression(ValueError):
    """An expression cannot be evaluated. The text explains why, and ends without a full stop."""


class Expression:
    """An expression that is parsed once and evaluated for many cases. Raises ``BadExpression``."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise BadExpression(f"is longer than {MAX_LENGTH} characters")
        try:
            self._body = python_parser.parse_expression(text.strip())
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise BadExpression(f"cannot be read; allowed are {ALLOWED}") from error
        nodes = list(ast.walk(self._body))
        if len(nodes) > MAX_NODES:
            raise BadExpression(f"has more than {MAX_NODES} parts")
        for node in nodes:
            _check(node)
        functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self.names = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in functions}
        """The keys that a case must have."""

    def value(self, case: Mapping[str, object]) -> float:
        """Return the result for a case. Raise ``BadExpression``."""
        return float(self._value(self._body, case))

    def _value(self, node: ast.AST, case: Mapping[str, object]) -> Number:
        match node:
            case ast.Constant(value=int() | float() as number):
                return _bounded(number)
            case ast.Name(id=name):
                return _bounded(_key(name, case))
            case ast.UnaryOp(op=sign, operand=inner):
                return SIGNS[type(sign)](self._value(inner, case))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return _power(self._value(left, case), self._value(right, case))
            case ast.BinOp(left=left, op=kind, right=right):
                return _computed(OPERATORS[type(kind)], self._value(left, case), self._value(right, case))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return FUNCTIONS[name](*(self._value(argument, case) for argument in arguments))
        raise AssertionError(f"{ast.dump(node)} was let through")


def _check(node: ast.AST) -> None:
    """Raise ``BadExpression`` for a part that is not allowed."""
    match node:
        case ast.Constant(value=bool()):
            fits = False
        case ast.Constant(value=value):
            fits = isinstance(value, (int, float))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            fits = name in FUNCTIONS and len(arguments) > 1
        case ast.BinOp(op=kind):
            fits = type(kind) in OPERATORS or isinstance(kind, ast.Pow)
        case ast.UnaryOp(op=sign):
            fits = type(sign) in SIGNS
        case _:
            fits = isinstance(node, (ast.Name, ast.expr_context, ast.operator, ast.unaryop))
    if not fits:
        text = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__.lower()
        raise BadExpression(f"has `{text[:40]}`, which is not allowed; allowed are {ALLOWED}")


def _key(name: str, case: Mapping[str, object]) -> Number:
    if name not in case:
        raise BadExpression(f"has `{name}`, which is no key of the case; it has {', '.join(case) or 'none'}")
    value = case[name]
    if not isinstance(value, (int, float)):
        raise BadExpression(f"has `{name}`, which is no number in this case")
    return value


def _power(base: Number, exponent: Number) -> Number:
    try:
        rough = math.pow(base, exponent)
    except (OverflowError, ValueError) as error:
        raise BadExpression("has a power that is too large or no real number") from error
    _bounded(rough)
    # A whole number is exact, and is known to be small by now.
    return base**exponent if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0 else rough


def _computed(compute: Callable[[Number, Number], Number], left: Number, right: Number) -> Number:
    try:
        return _bounded(compute(left, right))
    except ZeroDivisionError as error:
        raise BadExpression("divides by zero") from error


def _bounded(number: Number) -> Number:
    if not abs(number) <= LARGEST:  # nor is NaN; a whole number may be larger than any float
        raise BadExpression(f"comes to more than {LARGEST:g}")
    return number


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
