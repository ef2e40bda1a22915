"""Dataclasses and namedtuples in values."""

from __future__ import annotations

import dataclasses
from typing import Any


class Fields(dict[str, Any]):
    """The fields of a record whose class the reader does not know, by name."""


def record_fields(value: object) -> tuple[str, ...] | None:
    """Return the field names of a dataclass or namedtuple, None for anything else."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value))
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        return tuple(vars(type(value))["_fields"])
    return None


def as_mapping(value: Any) -> Any:
    """Return the fields of a record by name; anything else as it is."""
    names = record_fields(value)
    return value if names is None else {n: getattr(value, n) for n in names if hasattr(value, n)}


def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass or namedtuple."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(kind._fields)


def build_record(kind: type, fields: dict[str, Any]) -> Any:
    """Build a dataclass or namedtuple from its fields, even those that ``__init__`` does not take."""
    if not dataclasses.is_dataclass(kind):
        return kind(**fields)
    initial = {field.name for field in dataclasses.fields(kind) if field.init}
    made = kind(**{name: value for name, value in fields.items() if name in initial})
    for name in fields.keys() - initial:
        object.__setattr__(made, name, fields[name])
    return made


def assembled(kind: type, fields: dict[str, Any]) -> Any:
    """Return a dataclass or namedtuple with these fields, without running code of the class: it may not bear them."""
    if not dataclasses.is_dataclass(kind):
        return tuple.__new__(kind, [fields[name] for name in field_names(kind)])
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
