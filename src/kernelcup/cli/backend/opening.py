"""Decorators that give a command ``--server``, ``--local`` and ``--config``, and open the place that they
name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from kernelcup.cli.backend.base import Venue
from kernelcup.cli.backend.choosing import open_place, open_venue
from kernelcup.cli.backend.place import Place
from kernelcup.cli.options import ConfigOption, LocalOption, ServerOption

P = ParamSpec("P")
Opened = TypeVar("Opened")
Open = Callable[[str | None, bool, Path | None], AbstractContextManager[Opened]]

KEYWORD = inspect.Parameter.KEYWORD_ONLY
OPTIONS = (
    inspect.Parameter("server", KEYWORD, default=None, annotation=ServerOption),
    inspect.Parameter("local", KEYWORD, default=False, annotation=LocalOption),
    inspect.Parameter("config", KEYWORD, default=None, annotation=ConfigOption),
)


def _opened(opener: Open[Opened], command: Callable[Concatenate[Opened, P], None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(
        *args: Any,
        server: str | None = None,
        local: bool = False,
        config: Path | None = None,
        **options: Any,
    ) -> None:
        with opener(server, local, config) as opened:
            command(opened, *args, **options)

    # Typer reads the options of a command from its signature.
    hints = get_type_hints(command, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    own = [each.replace(annotation=hints[each.name]) for each in own]
    run.__signature__ = inspect.Signature([*own, *OPTIONS])  # type: ignore[attr-defined]
    return run


def with_place(command: Callable[Concatenate[Place, P], None]) -> Callable[..., None]:
    """Hand a command the :class:`Place` that its options name, open while the command runs."""
    return _opened(open_place, command)


def with_venue(command: Callable[Concatenate[Venue, P], None]) -> Callable[..., None]:
    """Hand a command the :class:`Venue` that its options name, open while the command runs."""
    return _opened(open_venue, command)
