"""The decorator that gives a command ``--server``, ``--local`` and ``--config``, and opens the backend that
they name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, get_type_hints

from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import open_backend
from kernelcup.cli.options import ConfigOption, LocalOption, ServerOption

P = ParamSpec("P")

KEYWORD = inspect.Parameter.KEYWORD_ONLY
OPTIONS = (
    inspect.Parameter("server", KEYWORD, default=None, annotation=ServerOption),
    inspect.Parameter("local", KEYWORD, default=False, annotation=LocalOption),
    inspect.Parameter("config", KEYWORD, default=None, annotation=ConfigOption),
)


def with_backend(command: Callable[Concatenate[Backend, P], None]) -> Callable[..., None]:
    """Hand a command the :class:`Backend` that its options name, open while the command runs."""

    @functools.wraps(command)
    def run(
        *args: Any,
        server: str | None = None,
        local: bool = False,
        config: Path | None = None,
        **options: Any,
    ) -> None:
        with open_backend(server, local, config) as backend:
            command(backend, *args, **options)

    # Typer reads the options of a command from its signature.
    hints = get_type_hints(command, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    own = [each.replace(annotation=hints[each.name]) for each in own]
    run.__signature__ = inspect.Signature([*own, *OPTIONS])  # type: ignore[attr-defined]
    return run
