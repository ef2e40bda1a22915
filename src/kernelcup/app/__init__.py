"""What KernelCup does: each function is one use case and opens its own transactions.

A module of a room that is imported from its room, as in ``from kernelcup.app.results import finals``, is loaded when
something of it is used. So a client that names an operation loads neither the storage nor the rooms that it needs.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """A module that is loaded when something of it is used."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return vars(import_module(self.__name__))

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(import_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self.__name__), name)


_LATER: dict[str, _Later] = {}
RARE = "kernelcup.app.boards.git_source"
"""Loads a library for git, which a server needs only to sync problem sets from a repository."""


def _module(room: str, name: str) -> ModuleType:
    """Return a module of a room, to be loaded later. Raise ``AttributeError`` if there is none."""
    full = f"{room}.{name}"
    if full not in _LATER:
        if name.startswith("__") or find_spec(full) is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        _LATER[full] = _Later(full)
    return _LATER[full]


def load() -> None:
    """Load the modules that were imported from their rooms but for the rare one, so that no request waits for it."""
    loaded = {RARE}
    while waiting := _LATER.keys() - loaded:
        loaded |= waiting
        for name in waiting:
            import_module(name)


def _rooms() -> None:
    for room in pkgutil.iter_modules(__path__, f"{__name__}."):
        if room.ispkg:
            for package in (room.name, f"{room.name}.queries"):
                get: Callable[[str], ModuleType] = partial(_module, package)
                vars(import_module(package))["__getattr__"] = get


_rooms()
