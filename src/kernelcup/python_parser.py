"""Python's own parser, safe for untrusted texts and several threads."""

from __future__ import annotations

import ast
import threading
import warnings

_ONE_AT_A_TIME = threading.Lock()
"""Python 3.11 counts the depth of a tree in one place for all threads: concurrent calls raise ``SystemError``. The
filters of warnings are shared by all threads too."""


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a file, without warnings.

    Raises:
        SyntaxError: The text is not Python.
        ValueError, RecursionError, MemoryError: The text has a NUL byte or is nested too deeply.
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of one expression. Raise like :func:`parse`."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body
