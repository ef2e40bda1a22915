"""JSON of protocol dataclasses. Decoding is strict: every key and type is checked."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from kernelcup_harness.protocol.base import PROTOCOL_VERSION, ProtocolError

T = TypeVar("T")
Reader = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Most:
    """Most characters of a text, items of a list or object, or the largest number: ``Annotated[str, Most(80)]``."""

    count: int

    def reader(self, inner: Reader) -> Reader:
        """Return a reader that also refuses what is longer."""

        def read(value: Any) -> Any:
            if isinstance(value, (str, list, dict)) and len(value) > self.count:
                raise _Mismatch(f"{len(value)} long; {self.count} are allowed")
            if type(value) in (int, float) and not 0 <= value <= self.count:
                raise _Mismatch(f"expected a number from 0 to {self.count}")
            return inner(value)

        return read


LONGEST_PART, MOST_PARTS = 80, 20
"""Of the path to a faulty value, in an error."""

Raw = Annotated[Any, "raw"]
"""JSON that is passed on as it is: another reader checks it."""
OrInfinite = Annotated[float, "or infinite"]


def to_json(value: object) -> Any:
    """Turn a protocol dataclass into JSON-ready values. NaN and infinities become ``{"$float": "nan"}``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    return value


def without_markers(value: Any) -> Any:
    """Return JSON values with NaN and infinities as floats again."""
    if isinstance(value, dict):
        if set(value) == {"$float"} and value["$float"] in ("inf", "-inf", "nan"):
            return float(value["$float"])
        return {key: without_markers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_markers(item) for item in value]
    return _read_float(value) if type(value) is float else value  # Python reads `NaN`, which is not JSON


def dumps(value: object) -> str:
    """Serialise a protocol dataclass to one line of JSON."""
    return json.dumps(to_json(value), allow_nan=False, separators=(",", ":"))


def loads(kind: type[T], text: str | bytes) -> T:
    """Read one protocol dataclass from JSON text. Raise :class:`ProtocolError` if it is not one."""
    try:
        return from_json(kind, json.loads(text))
    except ProtocolError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{kind.__name__}: not JSON: {error}") from error


def from_json(kind: type[T], value: object, path: str = "") -> T:
    """Check ``value`` against a dataclass and build it. Raise :class:`ProtocolError`."""
    try:
        return typing.cast("T", _reader(typing.cast("Any", kind))(value))
    except _Mismatch as mismatch:
        # A machine may send any key, of any length.
        where = "".join(f".{part[:LONGEST_PART]}" for part in reversed(mismatch.where[-MOST_PARTS:]))
        raise ProtocolError(f"{path or getattr(kind, '__name__', 'event')}{where}: {mismatch}") from None


class _Mismatch(ProtocolError):
    """A value of the wrong type; ``where`` collects the keys to it, the innermost first."""

    def __init__(self, text: str, where: str = "") -> None:
        super().__init__(text)
        self.where = [where] if where else []


@functools.cache
def _reader(kind: Any) -> Reader:
    """Return the reader of a type, which raises :class:`_Mismatch`. Cached: types are looked at once."""
    if kind is Any:
        return without_markers
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        (mark,) = arguments[1:]
        if kind is OrInfinite:
            return lambda value: math.inf if value == {"$float": "inf"} else _read_float(value)
        return mark.reader(_reader(arguments[0])) if isinstance(mark, Most) else _unread
    if origin in (types.UnionType, typing.Union):
        return _union_reader(arguments)
    if origin is list:
        return _list_reader(_reader(arguments[0]))
    if origin is dict:
        return _dict_reader(_reader(arguments[1]))
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(typing.cast("type", kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enum_reader(kind)
    return _read_float if kind is float else _scalar_reader(kind)


def _unread(value: Any) -> Any:
    return value


def _union_reader(options: tuple[Any, ...]) -> Reader:
    first, *others = (option for option in options if option is not type(None))
    inner = _event_reader((first, *others)) if others else _reader(first)

    def read(value: Any) -> Any:
        return None if value is None else inner(value)

    return read


def _event_reader(kinds: tuple[Any, ...]) -> Reader:
    """Return the reader of one of several dataclasses, which differ in the default of their field ``event``."""
    readers = {kind.__dataclass_fields__["event"].default: _reader(kind) for kind in kinds}

    def read(value: Any) -> Any:
        name = value.get("event") if isinstance(value, dict) else None
        if not isinstance(name, str) or name not in readers:
            raise _Mismatch(f"expected one of {', '.join(readers)}", "event")
        return readers[name](value)

    return read


def _list_reader(item: Reader) -> Reader:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _Mismatch(f"expected a list, got {type(value).__name__}")
        return [_part(item, entry, number) for number, entry in enumerate(value)]

    return read


def _dict_reader(item: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Mismatch(f"expected an object, got {type(value).__name__}")
        return {key: _part(item, entry, key) for key, entry in value.items()}

    return read


def _part(reader: Reader, value: Any, where: object) -> Any:
    try:
        return reader(value)
    except _Mismatch as mismatch:
        mismatch.where.append(str(where))
        raise


def _dataclass_reader(kind: type) -> Reader:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = dataclasses.fields(kind)
    readers = {f.name: _reader(hints[f.name]) for f in fields}
    missing = dataclasses.MISSING
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Mismatch(f"expected an object, got {type(value).__name__}")
        if unknown := [key for key in value if key not in readers]:
            raise _Mismatch("unknown key", unknown[0])
        if absent := [key for key in required if key not in value]:
            raise _Mismatch("missing", absent[0])
        made = kind(**{key: _part(readers[key], entry, key) for key, entry in value.items()})
        if "version" in readers and made.version != PROTOCOL_VERSION:
            raise _Mismatch(f"expected {PROTOCOL_VERSION}, got {made.version}", "version")
        return made

    return read


def _enum_reader(kind: type[StrEnum]) -> Reader:
    def read(value: Any) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(member.value for member in kind)
            raise _Mismatch(f"{str(value)[:LONGEST_PART]!r} is not one of {allowed}") from None

    return read


def _read_float(value: Any) -> float:
    if type(value) is int and abs(value) < 1 << 1023:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise _Mismatch(f"expected a finite float, got {type(value).__name__}")
    return value


def _scalar_reader(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _Mismatch(f"expected {kind.__name__}, got {type(value).__name__}")
        if kind is int and not -(1 << 63) <= typing.cast("int", value) < 1 << 63:
            raise _Mismatch("the number is too large")
        return value

    return read


def canonical_hash(value: object) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of ``value``."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
