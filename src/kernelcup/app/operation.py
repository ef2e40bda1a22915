"""Operations: a use case is one typed function, and the route and the command that offer it follow from its signature.

An operation takes what it needs of :data:`PROVIDED`. A door provides these. What a person says are the parameters with
a :class:`Given`: their types, bounds and defaults are checked at the door. Parameters without one are for other code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import NoneType, UnionType
from typing import IO, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

PART_BYTES = 64 << 10

F = TypeVar("F", bound=Callable[..., Any])

ACTORS = ("actor", "viewer", "by")
"""Names of the parameter for who asks: ``viewer`` only looks."""
SETTINGS = ("known_devices", "own_networks", "home")
PROVIDED = ("db", *ACTORS, "now", "entry", "server", "trial", "creator", *SETTINGS)
"""Parameters that a door provides; ``entry`` is how the actor came in, ``server`` the address that people open,
``creator`` the user for whom the operator of this machine acts, ``home`` the data folder, which is the
configuration's, as the other settings are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """How a person gives a parameter."""

    help: str
    metavar: str = ""
    """The name of an argument on the command line."""
    options: tuple[str, ...] = ()
    """Spellings on the command line; without any it is an argument."""
    key: str = ""
    """The name in requests; empty for the parameter's own."""
    longest: int = 200
    """Most characters of a text."""
    least: int | None = None
    most: int | None = None
    """Bounds of a number; of a list, its length."""
    choices: tuple[str, ...] = ()
    """The values of a text that has few."""
    is_negated: bool = False
    """Whether the flag on the command line means no."""
    parse: Callable[[str, datetime], Any] | None = None
    """Reads a value as people write it; takes the text and the time."""
    in_query: bool = False
    """Whether it stands in the query also of a request that has a body."""
    parts: tuple[Parameter, ...] = ()
    """The keys of a mapping: the value has those that are given."""
    is_upload: bool = False
    """Whether it is a function that loads a task from the files that were sent, or from a path."""


BOARD, BOARDS = "leaderboard", "leaderboards"
"""Keys of parameters that name leaderboards."""

Board = Annotated[str, Given(metavar="BOARD", help="Name of the leaderboard.", key=BOARD)]
OnDevice = Annotated[str | None, Given(longest=100, help="Required if the leaderboard has several.")]
Limit = Annotated[int, Given(options=("--limit",), least=1, most=200, help="Number of entries at most.")]
SubmissionId = Annotated[int, Given(metavar="ID", least=1, help="Number of the submission.")]
After = Annotated[
    int | None, Given(key="after", help="`next` of the previous page; omit it for the first page.")
]
User = Annotated[str, Given(metavar="USER", help="Name of the user.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter of an operation that a person gives."""

    name: str
    kind: Any
    """Its type."""
    given: Given
    default: Any
    """``inspect.Parameter.empty`` if it has to be given."""
    in_path: str
    """Its name in the path; empty if it is not there."""

    @property
    def is_required(self) -> bool:
        """Whether it has to be given."""
        return self.default is inspect.Parameter.empty

    @property
    def is_in_body(self) -> bool:
        """Whether it stands in the body of a request that has one."""
        return not self.in_path and not self.given.in_query

    @property
    def key(self) -> str:
        """Its name in requests."""
        return self.in_path or self.given.key or self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """A zip file."""

    name: str
    parts: Iterable[bytes]


def parts_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file from its beginning in parts, and close it."""
    with file:
        file.seek(0)
        yield from iter(partial(file.read, PART_BYTES), b"")


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A use case and its addresses."""

    call: Callable[..., Any]
    method: str
    path: str
    command: str
    """Words of its command; empty where the command is written by hand."""
    status: int
    subject: str
    personal: bool
    """Whether it is about the actor's own account, so that a local command acts as a user."""
    parameters: tuple[Parameter, ...]
    answer: Any
    """Type of what it returns."""
    provided: tuple[str, ...]
    is_paged: bool
    """Whether it returns a part of a list, at most ``limit`` entries with an ``id``, if it takes that."""
    is_slow: bool
    """Whether a client should wait for minutes."""
    is_aside: bool
    """Whether it takes so long that a server gives it a thread of its own, and a person one at a time."""
    tool: str
    """Its name for coding agents; empty where they do not need it."""
    location: str
    """Address under whose ``id`` the answer is found later; empty for none."""

    @property
    def has_body(self) -> bool:
        """Whether a request has its parameters as JSON rather than in the query."""
        return self.method in ("POST", "PUT", "PATCH") and any(each.is_in_body for each in self.parameters)

    @property
    def summary(self) -> str:
        """What it does, for people."""
        return FOR_CALLERS.split(inspect.cleandoc(self.call.__doc__ or ""), maxsplit=1)[0]

    def run(self, provided: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
        """Call it with what the door provides and what a person gave, by the parameters' names."""
        wanted = [name for name in self.provided if name not in values]
        sources = {name: "actor" if name in ACTORS else name for name in wanted}
        return self.call(**{name: provided[source] for name, source in sources.items()}, **values)


FOR_CALLERS = re.compile(r"\s+(?:Args:\n|Raises:\n|Raise ``)")
"""Begins what a docstring says to those who call the function in Python."""
OPERATIONS: dict[Callable[..., Any], Operation] = {}
"""All operations by their functions, in the order of their modules and lines."""


def operation(
    method: str,
    path: str,
    command: str = "",
    *,
    subject: str,
    status: int = 200,
    personal: bool = False,
    is_paged: bool = False,
    is_slow: bool = False,
    is_aside: bool = False,
    tool: str = "",
    location: str = "",
) -> Callable[[F], F]:
    """Offer a function at all doors.

    Args:
        method: Of the route.
        path: Of the route below ``/api/v1``; ``{name}`` is the parameter ``board``, unless there is one of that name.
        command: Words of the command; empty where it is written by hand.
        subject: Under which the API's documentation lists the route.
        status: Of a good answer.
        personal: Whether it is about the actor's own account.
        is_paged: Whether it returns a part of a list: its parameters with the keys ``limit`` and ``after`` say which;
            without these it is the whole list.
        is_slow: Whether a client should wait for minutes.
        is_aside: Whether a server gives it a thread of its own, and a person one at a time.
        tool: Its name for coding agents; empty where they do not need it.
        location: Address below ``/api/v1`` under whose ``id`` the answer is found later.
    """

    def offer(call: F) -> F:
        hints = get_type_hints(call, include_extras=True)
        signature = inspect.signature(call).parameters
        OPERATIONS[call] = Operation(
            call=call,
            method=method,
            path=path,
            command=command,
            status=status,
            subject=subject,
            personal=personal,
            is_paged=is_paged,
            is_slow=is_slow,
            is_aside=is_aside,
            tool=tool,
            location=location,
            parameters=tuple(
                _parameter(name, hints[name], each.default, path, names=tuple(signature))
                for name, each in signature.items()
                if get_origin(hints[name]) is Annotated
            ),
            answer=hints["return"],
            provided=tuple(name for name in signature if name in PROVIDED),
        )
        return call

    return offer


def without_none(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was in it."""
    if get_origin(kind) not in (UnionType, Union) or NoneType not in get_args(kind):
        return kind, False
    (rest,) = (part for part in get_args(kind) if part is not NoneType)
    return rest, True


def _parameter(name: str, hint: Any, default: Any, path: str, *, names: tuple[str, ...]) -> Parameter:
    kind, given = get_args(hint)
    in_path = name if re.search(rf"{{{name}(:path)?}}", path) else ""
    if name == "board" and "{name}" in path and "name" not in names:
        in_path = "name"
    return Parameter(name=name, kind=kind, given=given, default=default, in_path=in_path)
