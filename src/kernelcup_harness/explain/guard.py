"""Keeps an explanation from failing a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Fault = TypeVar("Fault")
MOST_SHOWN = 200


def guarded(text: str, plain: Callable[[str], Fault], describe: Callable[[], Fault]) -> Fault:
    """Return the fault that ``describe`` makes. If it raises, return ``plain`` of ``text`` and a line about that."""
    try:
        return describe()
    except Exception as error:
        why = f"the difference cannot be described ({type(error).__name__}: {error})"
        return plain(f"{text}\n{why[:MOST_SHOWN]}")
