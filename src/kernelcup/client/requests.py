"""Requests to a server and readers of its answers, for every client. No input or output."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import quote

from kernelcup.client.core import LONG_S, TIMEOUT_S, Params, Request
from kernelcup.client.models import READERS, read_board
from kernelcup.domain import Leaderboard
from kernelcup.errors import InvalidValue, ServerUnavailable
from kernelcup_harness.protocol import ProtocolError

if TYPE_CHECKING:
    from kernelcup.app.operation import Operation

PAGE = 200
"""The largest page that the server returns."""

T = TypeVar("T")


def asking(call: Callable[..., T], server: str, values: Mapping[str, Any]) -> Generator[Request, Any, T]:
    """Yield the requests of an operation, take the body of each answer, and return the operation's answer.

    Args:
        call: The operation.
        server: The server's address, for errors.
        values: What is given, by the operation's parameters.

    Raises:
        InvalidValue: A value cannot be a name.
        ServerUnavailable: An answer cannot be read.
    """
    from kernelcup.app.operation import OPERATIONS

    operation = OPERATIONS[call]
    path, said, params = _addressed(operation, values)
    if operation.is_paged and "limit" in said:
        (entry,) = get_args(operation.answer)
        limit, after = said.pop("limit"), said.pop("after", None)
        with reading(server):
            read = _reader(entry)
            found = yield from asking_pages(path, said, limit=limit, after=after)
            return [read(each) for each in found]  # type: ignore[return-value]
    uploads = [values.get(each.name) for each in operation.parameters if each.given.is_upload]
    body = yield Request(
        method=operation.method,
        path=path,
        params=params if operation.has_body else said | params,
        json=said if operation.has_body and not uploads else None,
        form={"settings": json.dumps(said)} if uploads else None,
        files=[("files", each) for task in uploads if task is not None for each in task.files().items()],
        timeout_s=LONG_S if operation.is_slow else TIMEOUT_S,
    )
    with reading(server):
        read_all = _reader(operation.answer)
        answer: T = read_all(body["items"] if operation.is_paged else body)
        return answer


def _reader(answer: Any) -> Callable[[Any], Any]:
    """Return a reader of an answer; a server shows a part of a leaderboard."""
    if isinstance(answer, type) and issubclass(answer, Leaderboard):
        return read_board
    return READERS.get(answer) or reader(answer)


def asking_pages(
    path: str, params: Params, *, limit: int | None, after: int | None = None
) -> Generator[Request, Any, list[Any]]:
    """Yield the requests for a paged list, take the body of each answer, and return the entries."""
    found: list[Any] = []
    while limit is None or len(found) < limit:
        left = PAGE if limit is None else min(limit - len(found), PAGE)
        start = {} if after is None else {"after": after}
        page = yield Request(method="GET", path=path, params={**params, "limit": left, **start})
        found += page["items"]
        after = page["next"]
        if after is None:
            break
    return found


def _addressed(operation: Operation, values: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the path of an operation's request, what stands in its body if it has one, and in its query."""
    names = {each.in_path: each.name for each in operation.parameters if each.in_path}
    parts = [part.strip("{}").removesuffix(":path") for part in operation.path.split("/")[1:]]
    said: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for each in operation.parameters:
        value = values.get(each.name)
        if each.in_path or each.given.is_upload or value is None:
            continue
        place = said if each.is_in_body else params
        place |= (
            {name: _sent(part) for name, part in value.items()}
            if each.given.parts
            else {each.key: _sent(value)}
        )
    return path_of(*(values[names[part]] if part in names else part for part in parts)), said, params


def _sent(value: Any) -> Any:
    """Return a value as a request has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value


@contextmanager
def reading(server: str) -> Iterator[None]:
    """Raise ``ServerUnavailable`` for an answer that cannot be read."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ProtocolError) as error:
        text = f"{server} answers in a form that this version does not know ({error}); is it a newer one?"
        raise ServerUnavailable(text) from error


def path_of(*parts: object) -> str:
    """Return a path of the API from its parts. Raise ``InvalidValue`` for a part that cannot be a name."""
    for part in parts:
        # In a path these would lead to another resource.
        if str(part) in ("", ".", ".."):
            raise InvalidValue(f"{part!r} is not a valid name.")
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def reader(kind: type[T]) -> Callable[[Any], T]:
    """Return a function that reads a server's JSON as a dataclass of a service, or a list of them."""
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(kind)

    def read(body: object) -> T:
        try:
            return adapter.validate_python(body)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    return read
