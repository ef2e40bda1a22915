"""JSON of protocol dataclasses. Decoding is strict: every key and type is checked."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from kernelcup_harness.protocol.base import PROTOCOL_VERSION, ProtocolError

T = TypeVar("T")


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
        if set(value) == {"$float"}:
            return _decode_scalar(float, value, "$float")
        return {key: without_markers(item) for key, item in value.items()}
    return [without_markers(item) for item in value] if isinstance(value, list) else value


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
    return typing.cast("T", _decode(kind, value, path or kind.__name__))


def _decode(kind: Any, value: Any, path: str) -> Any:
    if kind is Any:
        return without_markers(value)
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(kind, value, path)
    if origin is list:
        return _decode_list(typing.get_args(kind)[0], value, path)
    if origin is dict:
        return _decode_dict(typing.get_args(kind)[1], value, path)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _decode_enum(kind, value, path)
    return _decode_scalar(kind, value, path)


def _decode_union(kind: Any, value: Any, path: str) -> Any:
    options = typing.get_args(kind)
    if value is None and type(None) in options:
        return None
    (inner,) = (option for option in options if option is not type(None))
    return _decode(inner, value, path)


def _decode_list(item: Any, value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError(f"{path}: expected a list, got {type(value).__name__}")
    return [_decode(item, entry, f"{path}.{i}") for i, entry in enumerate(value)]


def _decode_dict(item: Any, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"{path}: expected an object, got {type(value).__name__}")
    return {key: _decode(item, entry, f"{path}.{key}") for key, entry in value.items()}


def _decode_dataclass(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"{path}: expected an object, got {type(value).__name__}")
    hints = _hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    # Stored reports of older versions have keys that no longer exist.
    past = getattr(kind, "past_keys", frozenset[str]())
    value = {key: entry for key, entry in value.items() if key not in past}
    for key in value:
        if key not in known:
            raise ProtocolError(f"{path}.{key}: unknown key")
    for f in dataclasses.fields(kind):
        has_default = f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        if f.name not in value and not has_default:
            raise ProtocolError(f"{path}.{f.name}: missing")
    made = kind(**{key: _decode(hints[key], entry, f"{path}.{key}") for key, entry in value.items()})
    if "version" in known and made.version != PROTOCOL_VERSION:
        raise ProtocolError(f"{path}.version: expected {PROTOCOL_VERSION}, got {made.version}")
    return made


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields. Cached: resolving them takes longer than reading a report."""
    return typing.get_type_hints(kind)


def _decode_enum(kind: type[StrEnum], value: Any, path: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise ProtocolError(f"{path}: {value!r} is not one of {allowed}") from None


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, dict) and value.get("$float") in ("inf", "-inf", "nan"):
        return float(value["$float"])
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ProtocolError(f"{path}: the number is too large for a float") from None
    if type(value) is not kind:
        raise ProtocolError(f"{path}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def canonical_hash(value: object) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of ``value``."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
