"""What a page says of the parts of a report: stages, phases, states, cases.

A case from close up shows the first wrong elements of a tensor among their neighbours, where a map's parts are too
coarse to show them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup

from kernelcup.app.results.comparisons import ComparedCase
from kernelcup.domain import JobState
from kernelcup.http.pages.submissions import report_plots
from kernelcup.reporting import columns, timeline, words
from kernelcup.reporting.bottlenecks import explain, roofline
from kernelcup.reporting.phrases import change_text
from kernelcup.reporting.report import parameters_text
from kernelcup_harness.protocol import CaseResult, Difference, Mismatch, StageName

ROWS, COLUMNS = 5, 8
ABOVE, BEFORE = 1, 2
"""So many rows and columns are shown before the first wrong element."""


class CellKind(StrEnum):
    """The known facts about an element."""

    WRONG = "wrong"
    RIGHT = "right"
    UNKNOWN = "unknown"
    """It comes after the wrong elements that a report lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """An element."""

    kind: CellKind
    element: Difference | None
    """Its values; None unless it is wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Elements beside each other along the last dimension."""

    index: str
    """Their position in all dimensions but the last; empty for a tensor of one dimension."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CloseUp:
    """A part of a tensor, element by element."""

    columns: tuple[int, ...]
    """Positions in the last dimension."""
    rows: tuple[Row, ...]

    @property
    def has_unknown(self) -> bool:
        """Whether it is not known of all elements whether they are right."""
        return any(cell.kind is CellKind.UNKNOWN for row in self.rows for cell in row.cells)


def close_up(mismatch: Mismatch) -> CloseUp | None:
    """Return the elements around the first wrong one, None where a map shows each element or there is no map."""
    shape, first = mismatch.shape, mismatch.first
    parts = sum(map(len, mismatch.tiles))
    if not first or not 0 < parts < mismatch.total or not all(_fits(each, shape) for each in first):
        return None
    *leading, column = first[0].position
    row = _row_number(leading, shape[:-1])
    rows = _window(row, ABOVE, ROWS, math.prod(shape[:-1]))
    columns = _window(column, BEFORE, COLUMNS, shape[-1])
    known = {tuple(each.position): each for each in first}
    last = None if mismatch.wrong <= len(first) else tuple(first[-1].position)
    return CloseUp(
        columns=tuple(columns),
        rows=tuple(_row(_position(each, shape[:-1]), columns, known, last) for each in rows),
    )


def _fits(element: Difference, shape: Sequence[int]) -> bool:
    position = element.position
    return 0 < len(position) == len(shape) and all(
        0 <= at < size for at, size in zip(position, shape, strict=True)
    )


def _window(at: int, before: int, length: int, size: int) -> range:
    """Return ``length`` places that begin shortly before one, moved or cut to lie within ``size``."""
    begin = max(0, min(at - before, size - length))
    return range(begin, min(begin + length, size))


def _row(
    leading: tuple[int, ...],
    columns: Sequence[int],
    known: Mapping[tuple[int, ...], Difference],
    last: tuple[int, ...] | None,
) -> Row:
    return Row(
        index=", ".join(map(str, leading)),
        cells=tuple(_cells(((*leading, column) for column in columns), known, last)),
    )


def _cells(
    positions: Iterator[tuple[int, ...]],
    known: Mapping[tuple[int, ...], Difference],
    last: tuple[int, ...] | None,
) -> Iterator[Cell]:
    """Yield elements; those up to the last wrong one that is listed are right unless they are listed.

    Args:
        last: The position of that one; None where all wrong elements are listed.
    """
    for position in positions:
        element = known.get(position)
        if element is not None:
            yield Cell(kind=CellKind.WRONG, element=element)
        elif last is None or position < last:
            yield Cell(kind=CellKind.RIGHT, element=None)
        else:
            yield Cell(kind=CellKind.UNKNOWN, element=None)


def _row_number(leading: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for at, size in zip(leading, sizes, strict=True):
        number = number * size + at
    return number


def _position(row: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the position in all dimensions but the last of a row that is counted through all of them."""
    found = []
    for size in reversed(sizes):
        row, at = divmod(row, size)
        found.append(at)
    return tuple(reversed(found))


STAGES = {
    StageName.IMPORT: "import",
    StageName.TEST: "tests",
    StageName.BENCHMARK: "benchmarks",
    StageName.RANKED: "ranked benchmarks",
    StageName.PROFILE: "profile",
}
PHASES = {
    "start": "start",
    "build": "compile",
    "import": "import",
    "load": "load",
    "test": "tests",
    "benchmark": "benchmarks",
    "ranked": "ranked",
    "profile": "profile",
    "canary": "calibration",
    "calibration": "calibration",
    "no-ops": "calibration",
    "duel": "duel",
}
"""Names of phases, by the first part of their key; all others are shown together."""
OTHER_PHASE = "other"

MOST_KEYS = 3
WAITS_NEXT = "You may close this page; the result stays here."

STATES = {
    JobState.QUEUED: "waits",
    JobState.RUNNING: "runs",
    JobState.HALTED: "waits for an admin",
    JobState.CANCELLED: "cancelled",
    JobState.QUARANTINED: "under review",
    JobState.REJECTED: "rejected",
    JobState.DONE: "done",
}


def state_text(state: JobState) -> str:
    """Return a job's state in words: ``waits``."""
    return STATES[state]


def stage_text(name: str) -> str:
    """Return a stage's name: ``ranked benchmarks``."""
    return next((words for stage, words in STAGES.items() if stage == name), name)


def shared_keys(cases: Sequence[CaseResult]) -> tuple[str, ...]:
    """Return the names of the parameters but the seed, where all public cases have the same few."""
    found = {tuple(key for key in case.parameters if key != "seed") for case in cases if case.parameters}
    keys = found.pop() if len(found) == 1 else ()
    return keys if len(keys) <= MOST_KEYS else ()


def case_text(case: CaseResult | ComparedCase, keys: Sequence[str] = ()) -> str:
    """Return a case's parameters without its seed: ``height 512, width 512``; ``hidden`` for a hidden one.

    Where the column is headed by their names: ``512 × 512``.
    """
    if isinstance(case, CaseResult) and case.hidden and not case.parameters:
        return "hidden"
    if keys:
        return " × ".join(str(case.parameters[key]) for key in keys)
    shown = {key: value for key, value in case.parameters.items() if key != "seed"} or case.parameters
    return ", ".join(f"{key} {value}" for key, value in shown.items()) or "no parameters"


def off_by(element: Difference) -> str:
    """Return how far an element is from what is expected; empty where they are no numbers."""
    try:
        return f"{abs(float(element.actual) - float(element.expected)):.4g}"
    except (ValueError, OverflowError):
        return ""


FILTERS = {
    "change": change_text,
    "state_text": state_text,
    "stage_text": stage_text,
    "case_text": case_text,
    "kernel_name": explain.demangled,
    "parameters_text": parameters_text,
    "off_by": off_by,
    "setting": explain.setting,
    "sentences": explain.sentences,
    "kernels": explain.rows,
    # Names are escaped there.
    "roofline": lambda found: Markup(roofline.picture(found)),
    "trace_picture": lambda trace_gz64: Markup(timeline.picture(trace_gz64 or "")),
    "trust_means": words.TRUST.__getitem__,
    "error_map": report_plots.error_map,
    "map_caption": report_plots.map_caption,
    "close_up": close_up,
    "samples": report_plots.samples,
    "rates": columns.rates,
    "times_as": columns.times,
}
