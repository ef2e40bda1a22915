"""The findings of the static screen, and their tags."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MAX_FINDINGS = 200
MAX_PER_TAG = 8
"""A limit per tag, so that one grave line cannot be hidden behind hundreds of harmless ones."""

SHOWN_SOURCE = 160


class Tag(StrEnum):
    """The kind of a finding."""

    DYNAMIC_EXECUTION = "dynamic_execution"
    FRAME_WALK = "frame_walk"
    PROCESS_MEMORY = "process_memory"
    TIMER_PATCH = "timer_patch"
    MODULE_PATCH = "module_patch"
    HARNESS_ACCESS = "harness_access"
    THREADS = "threads"
    NETWORK = "network"
    SUBPROCESS = "subprocess"
    TENSOR_SUBCLASS = "tensor_subclass"
    FILES = "files"
    POINTER_REPLAY = "pointer_replay"
    OBFUSCATION = "obfuscation"
    REVIEWER_TEXT = "reviewer_text"
    UNPARSABLE = "unparsable"
    NO_ANSWER = "no_answer"
    SYNTAX_ERROR = "syntax_error"
    ENVIRONMENT = "environment"
    STREAMS = "streams"
    NATIVE_CODE = "native_code"

    @property
    def grave(self) -> bool:
        """Whether honest kernels hardly ever need it."""
        return self not in COMMON_IN_HONEST_CODE


COMMON_IN_HONEST_CODE = frozenset({Tag.SYNTAX_ERROR, Tag.ENVIRONMENT, Tag.STREAMS, Tag.NATIVE_CODE})

MEANINGS = {
    Tag.DYNAMIC_EXECUTION: "runs or imports code that the text does not show: `exec`, `eval`, `compile`, "
    "`marshal`, `pickle`, imports of computed names",
    Tag.FRAME_WALK: "looks into callers' frames or lists the interpreter's objects",
    Tag.PROCESS_MEMORY: "reads or writes the memory of the process past Python, or hooks its libraries",
    Tag.TIMER_PATCH: "replaces what measures time: `torch.cuda.Event`, `synchronize`, `time.*`",
    Tag.MODULE_PATCH: "replaces a part of a module that others use as well",
    Tag.HARNESS_ACCESS: "names what belongs to the judging: its modules, functions and variables, `sys.modules`",
    Tag.THREADS: "starts threads, or has code run at another time than that of the call",
    Tag.NETWORK: "uses the network",
    Tag.SUBPROCESS: "starts or ends processes",
    Tag.TENSOR_SUBCLASS: "makes objects that pass for tensors but behave in another way",
    Tag.FILES: "writes, makes or removes files, or writes to descriptors",
    Tag.POINTER_REPLAY: "keeps results under an input's address or identity",
    Tag.OBFUSCATION: "hides what it does: encoded data, names put together from pieces, invisible characters",
    Tag.REVIEWER_TEXT: "speaks to whoever reviews it, person or language model",
    Tag.UNPARSABLE: "cannot be read as a tree (too deep, too large, odd characters); only its words were looked at",
    Tag.NO_ANSWER: "was not looked at: the screen came to no end within its limits of time and memory",
    Tag.SYNTAX_ERROR: "is not Python that this version reads; only its words were looked at",
    Tag.ENVIRONMENT: "reads or sets environment variables, or reads the command line",
    Tag.STREAMS: "makes CUDA streams or host callbacks of its own",
    Tag.NATIVE_CODE: "builds or loads native code",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One place in a text for reviewers to look at."""

    tag: str
    """A ``Tag``, or a second opinion's word prefixed with its name."""
    line: int
    """From 1; 0 if the whole text is meant."""
    column: int
    """From 1; 0 if the whole line is meant."""
    source: str
    """The line, or the part of a long one around the place."""
    explanation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """The findings in one text."""

    rules_version: str
    findings: tuple[Finding, ...] = ()
    left_out: int = 0
    """The number of findings beyond those in ``findings``."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags, each once, in the order of the findings."""
        return tuple(dict.fromkeys(finding.tag for finding in self.findings))


class Spot(NamedTuple):
    """A finding before its line is looked up."""

    line: int
    column: int
    """From 0."""
    tag: Tag
    explanation: str
    in_bytes: bool = False
    """Whether the column counts bytes of UTF-8, as those of a syntax tree do."""


class Lines:
    """The lines of a text, as Python counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, position: int) -> tuple[int, int]:
        """Return line, from 1, and column, from 0, of a position."""
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1]

    def line(self, number: int) -> str:
        """Return a line without its end; empty if it does not exist."""
        if not 1 <= number <= len(self._starts):
            return ""
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end]


def chosen(spots: Iterable[Spot], lines: Lines) -> tuple[tuple[Finding, ...], int]:
    """Return the findings to keep, grave tags first and then by line, and how many were left out."""
    order = {tag: number for number, tag in enumerate(Tag)}
    distinct = {(spot.tag, spot.line, spot.explanation): spot for spot in sorted(spots, reverse=True)}
    count: dict[Tag, int] = {}
    kept: list[Finding] = []
    for spot in sorted(distinct.values(), key=lambda spot: (order[spot.tag], spot.line, spot.column)):
        count[spot.tag] = count.get(spot.tag, 0) + 1
        if count[spot.tag] <= MAX_PER_TAG and len(kept) < MAX_FINDINGS:
            kept.append(_finding(spot, lines))
    return tuple(kept), len(distinct) - len(kept)


def _finding(spot: Spot, lines: Lines) -> Finding:
    line = lines.line(spot.line)
    column = spot.column
    if spot.in_bytes and not line.isascii():
        column = len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
    return Finding(
        tag=spot.tag.value,
        line=spot.line,
        column=column + 1,
        source=_around(line, column),
        explanation=spot.explanation,
    )


def _around(line: str, column: int) -> str:
    """Cut a long line to the part around a column, since the finding may be far to the right."""
    if len(line) <= SHOWN_SOURCE:
        return line.strip()
    start = max(0, min(column - SHOWN_SOURCE // 4, len(line) - SHOWN_SOURCE))
    part = line[start : start + SHOWN_SOURCE].strip()
    return f"{'…' if start else ''}{part}{'…' if start + SHOWN_SOURCE < len(line) else ''}"
