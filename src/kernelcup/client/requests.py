"""Parts of requests to a server, and readers of its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

T = TypeVar("T")


def path_of(*parts: object) -> str:
    """Return a path of the API from its parts. Raise ``InvalidValue`` for a part that cannot be a name."""
    from kernelcup.errors import InvalidValue

    for part in parts:
        # In a path these would lead to another resource.
        if str(part) in ("", ".", ".."):
            raise InvalidValue(f"{part!r} is not a valid name.")
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def given(**params: str | None) -> dict[str, str]:
    """Return the parameters of a request that are not None."""
    return {name: value for name, value in params.items() if value is not None}


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
