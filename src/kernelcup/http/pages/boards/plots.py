"""Plots as SVG: points in, text out. Colours are classes of the style sheet, so both themes have theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup, escape

from kernelcup.http.pages.figures import NS, machine_time, moment_text
from kernelcup.reporting.phrases import duration, plural

STEPS = (1, 2, 5)
MOST_TICKS = 5
MOST_ROWS = 12
LETTERS = 46.0
"""The room that a time takes below an axis."""
WIDE, NARROW = 860, 340
"""The width of a plot for a screen and for a phone, on which the letters of a wide one could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A time that was reached at a moment."""

    at: datetime
    seconds: float
    name: str = ""
    own: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """All times of one user."""

    name: str
    seconds: Sequence[float]
    own: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A scale from values to places, by the logarithm."""

    low: float
    high: float
    begins: float
    ends: float

    @classmethod
    def over(cls, values: Iterable[float], begins: float, ends: float) -> Axis:
        """Return a scale that has room for all values and for a little more."""
        known = [math.log(each) for each in values if each > 0 and math.isfinite(each)]
        low, high = min(known, default=0.0), max(known, default=0.0)
        room = max((high - low) * 0.06, 0.05)
        return cls(low=low - room, high=high + room, begins=begins, ends=ends)

    def place(self, value: float) -> float:
        """Return where a value stands."""
        share = (math.log(value) - self.low) / (self.high - self.low)
        return round(self.begins + share * (self.ends - self.begins), 1)

    def ticks(self) -> list[float]:
        """Return round values inside, a few of them."""
        low, high = math.exp(self.low), math.exp(self.high)
        found = _decades(low, high)
        if len(found) < 3:
            found = _even(low, high)
        while len(found) > MOST_TICKS:
            found = found[::2]
        return found


def best_over_time(
    points: Sequence[Point],
    *,
    before_s: float | None = None,
    until: datetime | None = None,
    width: int = 268,
    height: int = 150,
) -> Markup:
    """Return the best time as steps, one for each improvement, among all personal bests as dots.

    Args:
        points: Personal bests, the oldest first.
        before_s: The best time before the first of them, None where there was none.
        until: Where the plot ends; None for the last point.
        width: In units of which the page makes as many pixels as there is room for.
        height: Likewise.
    """
    if not points:
        return Markup("")
    left, bottom = 52.0, height - 18.0
    begins = points[0].at
    ends = max(until or points[-1].at, points[-1].at, begins + timedelta(seconds=1))
    span = (ends - begins).total_seconds()

    def across(when: datetime) -> float:
        return round(left + (when - begins).total_seconds() / span * (width - left - 6), 1)

    values = [each.seconds for each in points] + ([before_s] if before_s is not None else [])
    axis = Axis.over(values, bottom, 6.0)
    leaders = list(_leaders(points, before_s))
    parts = [_grid(axis, left, width), _dots(points, leaders, across, axis)]
    parts.append(_steps(leaders, before_s, across, axis, left, width))
    parts += [_mark(each, across(each.at), axis.place(each.seconds)) for each in leaders]
    parts.append(_date(left, height, begins, "start"))
    parts.append(_date(width, height, ends, "end"))
    best = min([each.seconds for each in leaders], default=before_s or points[0].seconds)
    label = (
        f"Best time from {moment_text(begins)} to {moment_text(ends)}: "
        f"{duration((before_s or points[0].seconds) * NS)} at first, {duration(best * NS)} at last, "
        f"{plural(len(leaders), 'improvement')}"
    )
    return _svg(width, height, label, parts)


def strips(rows: Sequence[Strip], *, width: int = 640) -> Markup:
    """Return a row of dots for each user, all times of theirs on one scale."""
    shown = [each for each in rows if each.seconds]
    if not shown:
        return Markup("")
    left, line, top = 130.0 if width > NARROW else 104.0, 22, 8
    height = top + line * len(shown) + 20
    axis = Axis.over([value for each in shown for value in each.seconds], left, width - 12.0)
    parts: list[str] = []
    written = 0.0
    for tick in axis.ticks():
        x = axis.place(tick)
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{top}" y2="{height - 18}"/>')
        if x - written >= LETTERS:
            written = x
            parts.append(
                f'<text x="{x}" y="{height - 5}" text-anchor="middle">{duration(tick * NS, digits=3)}</text>'
            )
    for number, each in enumerate(shown):
        y = top + line * number + line / 2
        name = each.name if len(each.name) <= 18 else f"{each.name[:17]}…"
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        places = sorted({axis.place(value) for value in each.seconds})
        best = places[0]
        parts += [f'<circle class="ghost" cx="{x}" cy="{y}" r="2.4"/>' for x in places[1:]]
        kind = "mark own" if each.own else "mark"
        parts.append(f'<circle class="{kind}" cx="{best}" cy="{y}" r="3.4"/>')
    count = sum(len(each.seconds) for each in shown)
    told = f"{plural(count, 'time')} of {plural(len(shown), 'user')}; each row is one user's"
    return _svg(width, height, told, parts)


def ratios(found: Sequence[float], *, width: int = 400) -> Markup:
    """Return the ratios of a duel's blocks as a row of dots around 1."""
    known = [each for each in found if each > 0 and math.isfinite(each)]
    if not known:
        return Markup("")
    axis = Axis.over([*known, 1.0], 12.0, width - 12.0)
    one = axis.place(1.0)
    parts = [f'<line class="whisker" x1="{one}" x2="{one}" y1="2" y2="38"/>']
    for tick in (math.exp(axis.low + 0.02), 1.0, math.exp(axis.high - 0.02)):
        x = axis.place(tick)
        parts.append(f'<text x="{x}" y="52" text-anchor="middle">{tick:.3f}</text>')
    places = sorted({axis.place(each) for each in known})
    parts += [f'<circle class="mark" cx="{x}" cy="20" r="3"/>' for x in places]
    return _svg(width, 56, f"{len(known)} ratios from {min(known):.3f} to {max(known):.3f}", parts)


def _leaders(points: Iterable[Point], before_s: float | None) -> Iterable[Point]:
    best = math.inf if before_s is None else before_s
    for each in points:
        if each.seconds < best:
            best = each.seconds
            yield each


def _steps(
    leaders: Sequence[Point],
    before_s: float | None,
    across: Callable[[datetime], float],
    axis: Axis,
    left: float,
    width: int,
) -> str:
    path: list[str] = []
    if before_s is not None:
        path.append(f"M{left} {axis.place(before_s)}")
    for each in leaders:
        x, y = across(each.at), axis.place(each.seconds)
        path.append(f"H{x}V{y}" if path else f"M{x} {y}")
    return f'<path class="step" d="{"".join(path)}H{width - 6}"/>' if path else ""


def _dots(
    points: Sequence[Point], leaders: Sequence[Point], across: Callable[[datetime], float], axis: Axis
) -> str:
    leading = set(map(id, leaders))
    # What falls on the same half pixel is drawn once: a thousand points stay a small picture.
    places = {
        (round(across(each.at) * 2) / 2, round(axis.place(each.seconds) * 2) / 2)
        for each in points
        if id(each) not in leading
    }
    return "".join(f'<circle class="ghost" cx="{x:g}" cy="{y:g}" r="1.8"/>' for x, y in sorted(places))


def _mark(point: Point, x: float, y: float) -> str:
    who = f", {point.name}" if point.name else ""
    told = escape(f"{duration(point.seconds * NS)}{who}, {moment_text(point.at)}")
    kind = "mark own" if point.own else "mark"
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="2.6"><title>{told}</title></circle>'


def _grid(axis: Axis, left: float, width: int) -> str:
    lines = []
    for tick in axis.ticks():
        y = axis.place(tick)
        lines.append(f'<line class="axis" x1="{left}" x2="{width - 6}" y1="{y}" y2="{y}"/>')
        lines.append(
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{duration(tick * NS, digits=3)}</text>'
        )
    return "".join(lines)


def _date(x: float, height: int, when: datetime, anchor: str) -> str:
    return (
        f'<text x="{x}" y="{height - 3}" text-anchor="{anchor}" data-at="{machine_time(when)}">'
        f"{when.day} {when:%b}</text>"
    )


def _decades(low: float, high: float) -> list[float]:
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    values = [step * 10.0**power for power in range(first, last + 1) for step in STEPS]
    return [each for each in values if low <= each <= high]


def _even(low: float, high: float) -> list[float]:
    """Return values at equal steps, for a range in which decades have few marks."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= raw)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _svg(width: int, height: float, label: str, parts: Sequence[str]) -> Markup:
    size = {WIDE: " large", NARROW: " small"}.get(width, "")
    head = (
        f'<svg class="plot{size}" viewBox="0 0 {width} {height:g}" role="img" aria-label="{escape(label)}">'
    )
    return Markup(head + "".join(parts) + "</svg>")
