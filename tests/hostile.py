"""Texts of the largest allowed size that are dear to read or long to talk about, and bounds for the answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

MOST_BYTES = 16_000
"""Of an answer that refuses something."""
MOST_S = 1.0
"""Of processor time for any answer."""


def repeated(part: str, size: int) -> str:
    """Return a text of exactly this many characters."""
    return (part * (size // len(part) + 1))[:size]


def numbered(form: str, size: int) -> str:
    """Return a text of at most this many characters, whose parts all differ."""
    count = max(1, size // (len(form) + len(str(size))))
    return "".join(form.replace("#", str(number)) for number in range(count))[:size]


SHAPES: dict[str, Callable[[int], str]] = {
    "one word": lambda size: repeated("x", size),
    "commas": lambda size: repeated(",", size),
    "columns": lambda size: numbered("c#,", size),
    "semicolons": lambda size: repeated("a;", size),
    "lines": lambda size: repeated("a\n", size),
    "blank lines": lambda size: repeated("\n", size),
    "names": lambda size: numbered("n#\n", size),
    "rows": lambda size: repeated("user,label\n" + numbered("u#,\n", size), size),
    "keys": lambda size: numbered("k#: 1\n", size),
    "settings": lambda size: numbered("k#=1\n", size),
    "brackets": lambda size: repeated("[", size),
    "braces": lambda size: repeated("{a: ", size),
    "stars": lambda size: repeated("*a_", size),
    "quotes": lambda size: repeated("<&\"'", size),
    "controls": lambda size: repeated("\x01\x1b", size),
    "turned": lambda size: repeated("\u202e", size),
    "faces": lambda size: repeated("\U0001f600", size),
    "comments": lambda size: numbered("# popcorn gpu #\n", size),
    "digits": lambda size: repeated("9", size),
    "objects": lambda size: json.dumps({f"k{number}": 1 for number in range(size // 15)}),
}


def things(count: int) -> Iterator[tuple[str, Any]]:
    """Yield what stands where something else is expected: long lists, many keys, deep nesting."""
    yield "a list of numbers", [0] * count
    yield "a list of texts", [f"n{number}" for number in range(count)]
    yield "a list of objects", [{"k": 1}] * count
    yield "many keys", {f"k{number}": number for number in range(count)}
    yield "long keys", {f"{number}{'k' * 10_000}": 1 for number in range(90)}
    deep: Any = 1
    for _ in range(400):
        deep = {"d": [deep]}
    yield "nesting", deep


class Meter:
    """Sends requests, and notes each answer that is too long or too dear."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.sent = 0

    def check(self, label: str, send: Callable[[], Any], *, free: Callable[[Any], int] = lambda _: 0) -> Any:
        """Send a request, and return the answer; ``free`` says how many of its bytes do not count."""
        self.sent += 1
        begun = time.process_time()
        answer = send()
        spent_s = time.process_time() - begun
        size = len(answer.content) - free(answer)
        if spent_s > MOST_S:
            self.faults.append(f"{label}: {answer.status_code} after {spent_s:.1f} s of processor")
        if answer.status_code >= 400 and size > MOST_BYTES:
            self.faults.append(f"{label}: {answer.status_code} with {size:,} bytes: {answer.text[:150]!r}")
        if answer.status_code >= 500 and answer.status_code != 503:
            self.faults.append(f"{label}: {answer.status_code}: {answer.text[:200]!r}")
        return answer
