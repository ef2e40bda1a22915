"""Evaluate arithmetic expressions like ``2 * m * n * k`` over the keys of a case. Nothing is ever executed.

Numbers, names, parentheses, ``+ - * / // **``, ``min`` and ``max`` are allowed. The syntax tree is walked here,
and every intermediate result is kept below :data:`LARGEST`, so that no text can cost much time or memory.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from kernelcup import python_parser

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
