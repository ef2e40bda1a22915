"""The ``#!POPCORN`` lines at the top of a submission."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelcup.clean_text import listed
from kernelcup.errors import EntryNeeded, InvalidDirective
from kernelcup_harness.protocol import SourceTree

DEFAULT_ENTRIES = ("submission.py", "submission.cu")

_DIRECTIVE = re.compile(r"(?:#|//)!popcorn(?:\s+(?P<rest>.*))?", re.IGNORECASE)
_MEANT = re.compile(r"(?:#|//)\s*!?\s*popcorn[\s:]+(?P<rest>(?:leaderboard|gpus?|entry)\b.*)", re.IGNORECASE)
"""Comments that look like a directive, such as ``# POPCORN leaderboard NAME``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Directives:
    """The leaderboard and the devices that a file names."""

    leaderboard: str | None = None
    devices: tuple[str, ...] = ()


def find_entry(files: Mapping[str, str]) -> SourceTree:
    """Return files with the one that has the kernel: the only one, the one that a directive names, or
    ``submission.py`` or ``submission.cu``.

    Raises:
        EntryNeeded: It cannot be told.
        InvalidDirective: A directive names another file, or several do.
    """
    if len(files) == 1:
        return SourceTree(entry=next(iter(files)), files=dict(files))
    lines = (words for text in files.values() for _, words in _directive_lines(text))
    named = sorted({" ".join(words[1:]) for words in lines if words and words[0].lower() == "entry"})
    if len(named) > 1:
        raise InvalidDirective(f"Several entries are named: {', '.join(named)}.")
    found = next((name for name in named or DEFAULT_ENTRIES if name in files), None)
    if found is None and named:
        raise InvalidDirective(f"The entry {named[0]!r} is not among the files: {', '.join(sorted(files))}.")
    if found is None:
        raise EntryNeeded(f"Which file has the kernel? There are {', '.join(sorted(files))}.")
    return SourceTree(entry=found, files=dict(files))


def parse_directives(code: str) -> Directives:
    """Read the directives in the first block of comments, which a blank line or code ends.

    ``#!POPCORN leaderboard NAME``, ``#!POPCORN gpu NAME [NAME ...]`` (or ``gpus``) and ``#!POPCORN entry FILE``
    (see :func:`find_entry`) are known, in upper or lower case, after ``#`` or ``//``. Other comments, including
    a shebang, are skipped.

    Raises:
        InvalidDirective: A directive is unknown, lacks its argument, or is given twice with different values.
    """
    found: dict[str, tuple[str, ...]] = {}
    for number, words in _directive_lines(code):
        key, values = _directive(number, words)
        earlier = found.setdefault(key, values)
        if [value.lower() for value in earlier] != [value.lower() for value in values]:
            raise InvalidDirective(f"Line {number}: {key} is given twice, with different values.")
    (board,) = found.get("leaderboard", (None,))
    return Directives(leaderboard=board, devices=found.get("gpu", ()))


def near_misses(code: str) -> list[str]:
    """Return a warning with line number for each of the first comments that are no directives but look like one."""
    last = _end_of_top(code)
    found = []
    for number, line in enumerate(code.removeprefix("\ufeff").split("\n"), start=1):
        comment = line.strip()
        match = _DIRECTIVE.fullmatch(comment)
        if match is None and (meant := _MEANT.fullmatch(comment)):
            mark = "//" if comment.startswith("//") else "#"
            found.append(f"line {number}: not a directive; write `{mark}!POPCORN {meant['rest']}`")
        elif match is not None and number > last:
            found.append(f"line {number}: ignored; directives belong at the top, in the first comment lines")
    return listed(found).splitlines()


def write_directives(code: str, board: str, devices: Sequence[str], *, mark: str = "#") -> str:
    """Return a template with directives for a leaderboard: its name, and only devices that it has.

    ``mark`` begins a comment in the template's language.
    """
    body = code.removeprefix("\ufeff")
    lines, last = body.split("\n"), _end_of_top(code)
    known = {name.lower() for name in devices}
    top = [f"{mark}!POPCORN leaderboard {board}"]
    for line in lines[:last]:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            top.append(line)
            continue
        words = _words(match)
        wanted = [word for word in words[1:] if word.lower() in known]
        if words[:1] and words[0].lower() in ("gpu", "gpus") and wanted:
            top.append(f"{mark}!POPCORN gpus {' '.join(wanted)}")
    if len(top) > 1 and top[1].startswith("#!/"):
        top[:2] = [top[1], top[0]]  # a shebang must stay the first line
    return "\n".join([*top, *lines[last:]])


def _words(match: re.Match[str]) -> list[str]:
    return (match["rest"] or "").replace(",", " ").split()


def _end_of_top(code: str) -> int:
    """Return how many lines the first block of comments has."""
    count = 0
    for line in code.removeprefix("\ufeff").split("\n"):
        if not line.strip().startswith(("#", "//")):
            break
        count += 1
    return count


def _directive_lines(code: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(code.removeprefix("\ufeff").split("\n"), start=1):
        comment = line.strip()
        if not comment.startswith(("#", "//")):
            return
        if match := _DIRECTIVE.fullmatch(comment):
            yield number, _words(match)


def _directive(number: int, words: list[str]) -> tuple[str, tuple[str, ...]]:
    if not words:
        raise InvalidDirective(f"Line {number}: expected `leaderboard NAME` or `gpu NAME` after !POPCORN.")
    key = {"gpus": "gpu"}.get(words[0].lower(), words[0].lower())
    if key not in ("leaderboard", "gpu", "entry"):
        raise InvalidDirective(
            f"Line {number}: unknown directive {words[0]!r}; there are leaderboard, gpu and entry."
        )
    values = tuple(dict.fromkeys(words[1:]))
    if not values:
        raise InvalidDirective(f"Line {number}: {words[0]} needs a name.")
    if key == "leaderboard" and len(values) > 1:
        raise InvalidDirective(f"Line {number}: a submission goes to one leaderboard, not {len(values)}.")
    return key, values
