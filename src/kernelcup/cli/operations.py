"""The commands of operations: their parameters follow from the operation, the words for an answer are given here."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kernelcup.app.operation import BOARD, BOARDS, Operation, Parameter, without_none
from kernelcup.app.operations import every
from kernelcup.cli import wiring
from kernelcup.cli.author import board_settings
from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.help import HelpGroup
from kernelcup.cli.options import JsonOption, UserOption
from kernelcup.cli.show.output import fields, plain
from kernelcup.errors import KernelCupError

MOST_LISTED = 1000
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What an operation returned, to whom."""

    value: Any
    given: Mapping[str, Any]
    """What the person gave, by the operation's parameters; leaderboards in their stored spelling."""
    option: str
    """What a proposed command needs to work at the same place: empty, or `` --server URL``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """How a command shows the answer of its operation."""

    text: Callable[[Answer], str | Iterable[str]]
    """Its lines for people."""
    as_json: Callable[[Answer], Mapping[str, object]]
    """The object that ``--json`` prints."""
    next_step: Callable[[Answer], Mapping[type[KernelCupError], str]] = lambda _: {}
    """What to do after an error; the answer has no value then."""


SPOKEN: dict[Callable[..., Any], Words] = {}
"""The words of operations that have their own."""


def say(
    call: Callable[..., Any],
    text: str | Callable[[Answer], str | Iterable[str]],
    as_json: Callable[[Answer], Mapping[str, object]] | None = None,
    next_step: Callable[[Answer], Mapping[type[KernelCupError], str]] = lambda _: {},
) -> None:
    """Give an operation's command its words.

    Args:
        call: The operation.
        text: Its lines for people; a text may name what was given: ``{user} is removed``.
        as_json: The object that ``--json`` prints; by default all that was returned.
        next_step: What to do after an error; the answer has no value then.
    """
    told = (lambda answer: text.format(**answer.given)) if isinstance(text, str) else text
    SPOKEN[call] = Words(text=told, as_json=as_json or _object, next_step=next_step)


def echo(**keys: str) -> Callable[[Answer], dict[str, object]]:
    """Return what makes the object for ``--json`` of what was given, by the parameters of its keys."""
    return lambda answer: {key: answer.given[name] for key, name in keys.items()}


def listed(
    key: str, as_object: Callable[[Any], object] = fields, **keys: str
) -> Callable[[Answer], dict[str, object]]:
    """Return what makes an object of what was given, and of the list that was returned under ``key``."""
    return lambda answer: {**echo(**keys)(answer), key: [as_object(each) for each in answer.value]}


def add_commands(root: typer.Typer, words: str, groups: Mapping[str, str]) -> dict[str, typer.Typer]:
    """Add the command of each operation below a group, after those that it has; return the groups in it.

    Args:
        root: The group.
        words: Its words, such as ``admin``.
        groups: Help of the groups in it, by name, in their order.
    """
    known = {name: typer.Typer(help=text, no_args_is_help=True) for name, text in groups.items()}
    for name, group in known.items():
        root.add_typer(group, name=name, cls=HelpGroup)
    for operation in every():
        if operation.command.startswith(f"{words} "):
            *between, last = operation.command.removeprefix(f"{words} ").split()
            (known[between[0]] if between else root).command(last)(command(operation))
    return known


def commands_of(
    words: str,
    *,
    groups: Mapping[str, str] | None = None,
    by_hand: Mapping[str, Callable[..., None]] | None = None,
    order: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the commands of a group by name: those of its operations, and those that are written by hand.

    Args:
        words: Its words, such as ``board export``.
        groups: Help of the groups in it, by name.
        by_hand: Commands beside those of operations.
        order: The first commands in its help; all others follow.
    """
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    add_commands(group, words, groups or {})
    for name, call in (by_hand or {}).items():
        group.command(name)(call)
    root: Any = typer.main.get_group(group)
    return {name: root.commands[name] for name in dict.fromkeys((*order, *root.commands))}


def command(operation: Operation) -> Callable[..., None]:
    """Return the command of an operation, as typer reads it."""

    def run(backend: Backend, /, **given: Any) -> None:
        as_json = given.pop("as_json")
        user = given.pop("user") if operation.personal else None
        perform(backend, operation, given, as_json=as_json, user=user)

    run.__doc__ = operation.summary
    run.__name__ = operation.call.__name__
    own = [option for parameter in operation.parameters for option in _options(parameter)]
    if operation.personal:
        own.append(inspect.Parameter("user", POSITIONAL, default=None, annotation=UserOption))
    own.append(inspect.Parameter("as_json", POSITIONAL, default=False, annotation=JsonOption))
    first = inspect.Parameter("backend", POSITIONAL, annotation=Backend)
    # What has no default comes first, as Python wants it.
    own.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    run.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (first, *own)}
    return with_backend(run)


def perform(
    backend: Backend, operation: Operation, given: Mapping[str, Any], *, as_json: bool, user: str | None
) -> None:
    """Run an operation with what was given on the command line, and print the answer."""
    words = SPOKEN.get(operation.call, DEFAULT)
    values = {
        each.name: _read_parts(each, given) if each.given.parts else _read(backend, each, given[each.name])
        for each in operation.parameters
    }
    asked = Answer(value=None, given=values, option=backend.option)
    with ExitStack() as stack:
        for kind, hint in words.next_step(asked).items():
            stack.enter_context(wiring.pointing_to(hint, kind))
        value = backend.call(operation.call, as_user=user, **values)
    answer = dataclasses.replace(asked, value=value)
    if as_json:
        typer.echo(json.dumps(words.as_json(answer)))
        return
    text = words.text(answer)
    for line in [text] if isinstance(text, str) else text:
        typer.echo(plain(line))


def _read(backend: Backend, parameter: Parameter, value: Any) -> Any:
    """Return a parameter's value from that of its option or argument."""
    if value is None:
        return None
    if parameter.given.parse is not None:
        return parameter.given.parse(value, datetime.now(UTC))
    if parameter.given.is_negated:
        return not value
    if parameter.given.key == BOARD:
        return backend.board(value).name
    if parameter.given.key == BOARDS:
        return [backend.board(name).name for name in value]
    return value


def _read_parts(parameter: Parameter, given: Mapping[str, Any]) -> Any:
    """Return the mapping of those options of a parameter's parts that were given."""
    kind, _ = without_none(parameter.kind)
    said = {part: given[part.name] for part in parameter.given.parts}
    return kind(
        **{
            part.name: board_settings.read(part, value)
            for part, value in said.items()
            if value not in (None, [])
        }
    )


def _options(parameter: Parameter) -> list[inspect.Parameter]:
    """Return the options of a parameter: of a mapping one for each key."""
    parts = [board_settings.option_of(part).replace(kind=POSITIONAL) for part in parameter.given.parts]
    return parts or [_option(parameter)]


def _option(parameter: Parameter) -> inspect.Parameter:
    """Return the option or argument of a parameter."""
    given, kind = parameter.given, parameter.kind
    bounds: dict[str, Any] = {}
    if kind is int:
        # A list is fetched page by page.
        most = MOST_LISTED if parameter.key == "limit" else given.most or 2**63 - 1
        bounds = {"min": given.least, "max": most}
    default = not parameter.default if given.is_negated else parameter.default
    if given.parse is not None:
        kind = str if parameter.is_required else str | None
    info: Any = typer.Option(*given.options, help=given.help, **bounds)
    if not given.options:
        info = typer.Argument(metavar=given.metavar or parameter.name.upper(), help=given.help, **bounds)
    return inspect.Parameter(parameter.name, POSITIONAL, default=default, annotation=Annotated[kind, info])


def _lines(answer: Answer) -> Iterable[str]:
    """Return a line for each thing that was returned."""
    found = answer.value if isinstance(answer.value, (list, tuple)) else [answer.value]
    return [_line(value) for value in found] or ["There is none."]


def _line(value: Any) -> str:
    if value is None:
        return "done"
    if not dataclasses.is_dataclass(value):
        return str(value)
    pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return ", ".join(f"{name.replace('_', ' ')}: {part}" for name, part in pairs if part is not None)


def _object(answer: Answer) -> Mapping[str, object]:
    """Return an object with all that was returned."""
    if answer.value is None:
        return {"done": True}
    if isinstance(answer.value, (list, tuple)):
        return {"items": [_fields(value) for value in answer.value]}
    return _fields(answer.value)


def _fields(value: Any) -> dict[str, object]:
    if not dataclasses.is_dataclass(value):
        return {"value": value}
    return fields(value)


DEFAULT = Words(text=_lines, as_json=_object)
"""The words of an operation that has none of its own."""
