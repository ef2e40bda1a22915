"""Dataclasses, namedtuples and plain objects in values, and sparse tensors, whose parts are named as fields are."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from typing import Any

import torch

from kernelcup_harness.wire import sparse

Kind = type | sparse.Sparse
"""The class of a record, or what a sparse tensor has beside its parts."""


class Fields(dict[str, Any]):
    """The fields of a record whose class the reader does not know, by name."""


def record_fields(value: object) -> tuple[str, ...] | None:
    """Return the field names of a dataclass, namedtuple, plain object or sparse tensor, None for anything else."""
    if (kind := sparse.kind_of(value)) is not None:
        return sparse.PARTS[kind.layout]
    return tuple(vars(value)) if is_plain(type(value)) else field_names(type(value))


def is_plain(kind: Any) -> bool:
    """Whether objects of a class are their attributes: written in Python, derived from nothing, not called."""
    if dataclasses.is_dataclass(kind) or kind.__mro__ != (kind, object):
        return False
    return {"__dict__", "__weakref__"} <= vars(kind).keys() and "__call__" not in vars(kind)


def part(value: Any, name: str) -> Any:
    """Return a field of a record, of which ``isinstance`` would believe that it is a tensor if it says so."""
    return sparse.part(value, name) if issubclass(type(value), torch.Tensor) else getattr(value, name)


def kind_of(value: Any) -> Kind:
    """Return what a record is built by, together with its fields."""
    return sparse.kind_of(value) or type(value)


def instead(value: object) -> str:
    """Return what an author may hand over in place of a value of another class; empty if nothing is known."""
    if isinstance(value, torch.nn.Module):
        return ": hand over its `state_dict()`, and let submissions build what they need of it"
    return ": make it a dataclass" if hasattr(value, "__dict__") and not callable(value) else ""


def as_mapping(value: Any) -> Any:
    """Return the fields of a record by name; anything else as it is."""
    names = record_fields(value)
    return value if names is None else {n: getattr(value, n) for n in names if hasattr(value, n)}


def misfit(kind: Any, names: Set[str]) -> str:
    """Say why a class's objects cannot have these fields; empty if they can."""
    if (own := tuple(names) if is_plain(kind) else field_names(kind)) is None:
        return "is neither a dataclass nor a namedtuple, nor plain"
    return "" if names == set(own) else "without its fields, or with others"


def field_names(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass or namedtuple, None of any other class."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(kind._fields) if issubclass(kind, tuple) and hasattr(kind, "_fields") else None


def build_record(kind: Kind, fields: dict[str, Any]) -> Any:
    """Build a record from its fields, even those that ``__init__`` does not take."""
    if not dataclasses.is_dataclass(kind):
        if isinstance(kind, type) and issubclass(kind, tuple):
            return kind(**fields)
        return assembled(kind, fields)
    initial = {field.name for field in dataclasses.fields(kind) if field.init}
    made = kind(**{name: value for name, value in fields.items() if name in initial})
    for name in fields.keys() - initial:
        object.__setattr__(made, name, fields[name])
    return made


def assembled(kind: Kind, fields: dict[str, Any]) -> Any:
    """Return a record with these fields, without running code of its class: it may not bear them."""
    if isinstance(kind, sparse.Sparse):
        return kind.built(fields)
    if issubclass(kind, tuple):
        return tuple.__new__(kind, [fields[name] for name in field_names(kind) or ()])
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
