"""Options for a leaderboard's settings, and how their values are read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from kernelcup.app.boards.settings import SETTINGS, BoardChanges
from kernelcup.app.operation import Parameter, without_none
from kernelcup.errors import InvalidValue

NONE = "none"

DeviceOption = Annotated[list[str] | None, typer.Option("--device", "-d", help="May be repeated.")]
OPTIONS = [each for each in SETTINGS if each.given.options]
"""The settings that have options; a command has its own ones for devices and harness."""


def option_of(setting: Parameter) -> inspect.Parameter:
    """Return the option of a setting."""
    kind, _ = without_none(setting.kind)
    if "/" in setting.given.options[0]:
        kind = bool
    elif get_origin(kind) is Sequence:
        kind = list[str]
    elif kind is not float:
        kind = str
    info = typer.Option(
        *setting.given.options, metavar=setting.given.metavar or None, help=setting.given.help
    )
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )


def read(setting: Parameter, value: Any) -> Any:
    """Return a setting from the value of its option; the word none removes it. Raise ``InvalidValue``."""
    kind, is_optional = without_none(setting.kind)
    option = setting.given.options[0]
    if value in (NONE, [NONE]) and (is_optional or kind in (str, Sequence[str])):
        return None if is_optional else setting.default
    if isinstance(kind, type) and issubclass(kind, Enum):
        if isinstance(value, bool):
            return list(kind)[value]  # of its two members the second is what the option turns on
        words = [str(each.value) for each in kind]
        if (word := value.lower().replace("-", "_")) not in words:
            raise InvalidValue(f"{option} {value}: expected {', '.join(words[:-1])} or {words[-1]}")
        return kind(word)
    if kind is int:
        if not value.isascii() or not value.isdigit() or len(value) > 15:
            raise InvalidValue(f"{option} {value}: expected a number, or none")
        return int(value)
    return value if setting.given.parse is None else setting.given.parse(value, datetime.now(UTC))


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the settings; it gets those that were set as ``given``."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        said = {each: options.pop(each.name) for each in OPTIONS}
        given = {each.name: read(each, value) for each, value in said.items() if value not in (None, [])}
        command(*args, **options, given=BoardChanges(**given))

    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command).parameters.values():
        own = [each.replace(annotation=hints[each.name])]
        parameters += map(option_of, OPTIONS) if each.name == "given" else own
    # Typer reads the options of a command from its signature.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
