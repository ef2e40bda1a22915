"""Clean untrusted texts: no NUL and no lone surrogates for databases, visible controls and short lists for people."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

REPLACEMENT = "\ufffd"

MOST_FAULTS = 10
"""Lines of a message; the next one says how many more there are."""
LONGEST_MESSAGE = 3000
"""Bytes of its lines as UTF-8; each has an equal part of them."""

_ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
"""The JSON escapes of these characters, and of complete surrogate pairs."""


# Control characters except newline and tab, and those that change the direction of writing.
_CONTROLS = [*range(9), *range(11, 32), *range(0x7F, 0xA0)]
_DIRECTIONS = [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS} | {code: f"\\u{code:04x}" for code in _DIRECTIONS}


def plain(text: str) -> str:
    """Return text with its control characters made visible; a carriage return begins a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_VISIBLE)


def cut(text: str, most: int) -> str:
    """Return a text of at most ``most`` bytes as UTF-8, without control characters; its middle is left out."""
    content, half = plain(text).encode("utf-8", "replace"), most // 2 - 2
    ends = (content[:half], content[-half:]) if len(content) > most else (content,)
    return "\u2026".join(each.decode("utf-8", "ignore") for each in ends)


def more(count: int) -> list[str]:
    """Return the last line of a list that leaves out ``count`` of its lines, nothing if it leaves out none."""
    return [f"and {count:,} more"] if count > 0 else []


def listed(faults: Sequence[object], longest: int = LONGEST_MESSAGE) -> str:
    """Return faults as the lines of a message: the first ones, cut, and how many more there are."""
    shown = faults[:MOST_FAULTS]
    lines = [cut(" ".join(str(each).splitlines()), longest // len(shown)) for each in shown]
    rest = faults[MOST_FAULTS:]
    is_listed = len(rest) == 1 and re.fullmatch(r"and [\d,]{1,20} more", str(rest[0]))  # by who sent it
    return "\n".join([*lines, *(map(str, rest) if is_listed else more(len(rest)))])


def clean_text(text: str) -> str:
    """Return the text with U+FFFD for each NUL and each half of a surrogate pair."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", REPLACEMENT)


def clean_json(value: Any) -> Any:
    """Return a JSON value all of whose texts, keys included, are clean."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): clean_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [clean_json(each) for each in value]
    return value


def dump_json(value: Any) -> str:
    """Return a value as JSON that databases accept: PostgreSQL reads no NUL back, UTF-8 no lone surrogate."""
    text = json.dumps(value)
    return json.dumps(clean_json(json.loads(text))) if _ESCAPED.search(text) else text


def load_json(line: bytes) -> Any:
    """Parse JSON that a machine has written, and clean its texts. Raise ``ValueError`` if it is not JSON."""
    return clean_json(json.loads(line))
