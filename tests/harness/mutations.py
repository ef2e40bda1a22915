"""Messages as a hostile process would send them: honest ones with parts replaced, left out or repeated."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any


def junk(chance: random.Random, value: Any) -> Any:
    """Return something that a contestant could put in the place of a value."""
    kinds = [
        lambda: chance.choice([-1, 0, 1 << 31, 1 << 63, (1 << 64) - 1, 1 << 80, 10**400]),
        lambda: chance.choice([None, True, 1.5, float("inf"), float("nan"), "", "\0", "\ud800", "é" * 9]),
        lambda: chance.choice([[], {}, [[]], {"kind": "launch"}, {"kind": ["x"]}, [value], [value] * 300]),
        lambda: "0" * chance.choice([1, 2, 63, 64, 130, 100_000]),
        lambda: {"k": value},
    ]
    return chance.choice(kinds)()


def mutated(chance: random.Random, value: Any) -> Any:
    """Return JSON with one part of it replaced, left out or repeated."""
    if isinstance(value, (list, dict)) and value and chance.random() < 0.85:
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        key = chance.choice(list(copy)) if isinstance(copy, dict) else chance.randrange(len(copy))
        what = chance.random()
        if what < 0.08:
            del copy[key]
        elif what < 0.12 and isinstance(copy, list):
            copy.append(copy[key])
        else:
            copy[key] = mutated(chance, copy[key])
        return copy
    return junk(chance, value)


def near(chance: random.Random, value: Any) -> Any:
    """Return JSON with one number or text of it a little different: most of what is checked is a size."""
    if isinstance(value, (list, dict)) and value:
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        key = chance.choice(list(copy)) if isinstance(copy, dict) else chance.randrange(len(copy))
        copy[key] = near(chance, copy[key])
        return copy
    if type(value) is int:
        return chance.choice([value + 1, value - 1, value * 2, value ^ (1 << chance.randrange(62)), -value])
    if isinstance(value, float):
        return chance.choice([-value, value * 1e300, 0.0])
    return chance.choice(["", value[1:], value + "x"]) if isinstance(value, str) else value


def depth() -> int:
    """Return how many calls deep the caller is; `inspect.stack` reads the sources of all of them."""
    frame, calls = sys._getframe(1), 1
    while frame.f_back is not None:
        frame, calls = frame.f_back, calls + 1
    return calls


def too_deep() -> Any:
    """Return lists in lists that can neither be printed nor compared a little deeper in."""
    value: Any = []
    for _ in range(sys.getrecursionlimit() - depth() - 2):
        value = [value]
    return value


def hostile(chance: random.Random, message: Any, deep: Any) -> Any:
    """Return a message that differs from an honest one in up to three places."""
    change = chance.random()
    if change < 0.3:
        return near(chance, message)
    for _ in range(chance.randint(1, 3)):
        message = mutated(chance, message)
    return placed(chance, message, deep) if change < 0.4 else message


def placed(chance: random.Random, message: Any, deep: Any) -> Any:
    """Return a message with something else in one place."""
    if isinstance(message, (list, dict)) and message and chance.random() < 0.8:
        copy: Any = dict(message) if isinstance(message, dict) else list(message)
        key = chance.choice(list(copy)) if isinstance(copy, dict) else chance.randrange(len(copy))
        copy[key] = placed(chance, copy[key], deep)
        return copy
    return deep


def feed(
    decode: Callable[[Any], Any],
    messages: Sequence[Any],
    refusals: type[Exception] | tuple[type[Exception], ...],
    *,
    count: int,
    seed: int,
) -> tuple[int, int]:
    """Decode mutated messages. Return how many were taken and refused; every other exception is a failure."""
    chance, deep = random.Random(seed), too_deep()
    refused = 0
    for number in range(count):
        message = hostile(chance, messages[number % len(messages)], deep)
        try:
            decode(message)
        except refusals:
            refused += 1
    return count - refused, refused
