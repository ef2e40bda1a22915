"""The ``#!POPCORN`` lines at the top of a submission."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernelcup.errors import InvalidDirective

_DIRECTIVE = re.compile(r"(?:#|//)!popcorn(?:\s+(?P<rest>.*))?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Directives:
    """What a file says about where it wants to go."""

    leaderboard: str | None = None
    devices: tuple[str, ...] = ()


def parse_directives(code: str) -> Directives:
    """Read the directives in the first block of comments, which a blank line or code ends.

    ``#!POPCORN leaderboard NAME`` and ``#!POPCORN gpu NAME [NAME ...]`` (or ``gpus``) are known,
    in any case, after ``#`` or ``//``. Other comments, a shebang among them, are passed over.

    Raises:
        InvalidDirective: Unknown, without its argument, or given twice with different values.
    """
    found: dict[str, tuple[str, ...]] = {}
    for number, words in _directive_lines(code):
        key, values = _directive(number, words)
        earlier = found.setdefault(key, values)
        if [value.lower() for value in earlier] != [value.lower() for value in values]:
            raise InvalidDirective(f"Line {number}: {key} is given twice, with different values.")
    (board,) = found.get("leaderboard", (None,))
    return Directives(leaderboard=board, devices=found.get("gpu", ()))


def _directive_lines(code: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(code.removeprefix("\ufeff").split("\n"), start=1):
        comment = line.strip()
        if not comment.startswith(("#", "//")):
            return
        if match := _DIRECTIVE.fullmatch(comment):
            yield number, (match["rest"] or "").replace(",", " ").split()


def _directive(number: int, words: list[str]) -> tuple[str, tuple[str, ...]]:
    if not words:
        raise InvalidDirective(f"Line {number}: expected `leaderboard NAME` or `gpu NAME` after !POPCORN.")
    key = {"gpus": "gpu"}.get(words[0].lower(), words[0].lower())
    if key not in ("leaderboard", "gpu"):
        raise InvalidDirective(
            f"Line {number}: unknown directive {words[0]!r}; there are leaderboard and gpu."
        )
    values = tuple(dict.fromkeys(words[1:]))
    if not values:
        raise InvalidDirective(f"Line {number}: {words[0]} needs a name.")
    if key == "leaderboard" and len(values) > 1:
        raise InvalidDirective(f"Line {number}: a submission goes to one leaderboard, not {len(values)}.")
    return key, values
