"""Python's own parser, for texts from outside and for many threads."""

from __future__ import annotations

import ast
import threading
import warnings

_ONE_AT_A_TIME = threading.Lock()
"""Python 3.11 counts the depth of a tree in one place for all threads: two at once are a ``SystemError``.
The filters of warnings are one for all threads too."""


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a file, and warn of nothing.

    Raises:
        SyntaxError: It is not Python.
        ValueError, RecursionError, MemoryError: It has a NUL byte or is nested too deeply.
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of one expression. Raise as :func:`parse` does."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body
