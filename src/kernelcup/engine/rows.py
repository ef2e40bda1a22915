"""Dataclasses from rows."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def made_of(row: Any, kind: type[T], **more: Any) -> T:
    """Return a dataclass of ``more`` and, for its other fields, of the row's columns of the same names.

    A word becomes the member of the field's enumeration.
    """
    found = {name: read(getattr(row, name)) for name, read in _readers(cast("Any", kind)) if name not in more}
    return kind(**found, **more)


@cache
def _readers(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    hints = typing.get_type_hints(kind)
    return tuple((each.name, _reader(hints[each.name])) for each in dataclasses.fields(kind) if each.init)


def _reader(hint: Any) -> Callable[[Any], Any]:
    options = [each for each in typing.get_args(hint) or (hint,) if each is not type(None)]
    (only,) = options if len(options) == 1 else (None,)
    if isinstance(only, type) and issubclass(only, Enum):
        return lambda word: None if word is None else only(word)
    return lambda value: value
