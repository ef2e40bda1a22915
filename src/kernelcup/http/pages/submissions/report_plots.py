"""Pictures of one run as SVG: samples of a case, wrong elements of a tensor, where the time went."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from kernelcup.reporting.phrases import duration, percent
from kernelcup_harness.protocol import Mismatch, Timing

MOST_DOTS = 120
LEAST_REACH = 0.005
SMALLEST_SHADE = 1
SHADES = 4
LIVE_CELLS = 60
JUDGED = ("tests", "benchmarks", "ranked", "profile", "duel")
"""Phases in which the submission is called."""


def reach_of(timings: Sequence[Timing]) -> float:
    """Return how far the samples of some cases lie from their means, as a share: all but a few of them."""
    reach = LEAST_REACH
    for timing in timings:
        middle = timing.raw_ns
        if middle > 0 and math.isfinite(middle):
            off = sorted(abs(each / middle - 1) for each in timing.samples_ns)
            reach = max(reach, off[int(0.95 * (len(off) - 1))])
    return min(reach * 1.1, 1.0)


def samples(timing: Timing, reach: float, *, width: int = 150) -> Markup:
    """Return the samples of a case as dots around their mean; what lies further than the scale is at its end."""
    middle = timing.raw_ns
    if not timing.samples_ns or not (middle > 0 and math.isfinite(middle)):
        return Markup("")
    half = width / 2
    dots = []
    for number, value in enumerate(timing.samples_ns[:MOST_DOTS]):
        off = max(-1.0, min(1.0, (value / middle - 1) / reach))
        # Beside each other where they would hide each other; the same each time.
        y = 10 + (number * 7 % 11 - 5) * 0.9
        kind = "ghost" if abs(off) < 1 else "ghost far"
        dots.append(f'<circle class="{kind}" cx="{half + off * (half - 4):.1f}" cy="{y:.1f}" r="1.7"/>')
    label = (
        f"{len(timing.samples_ns)} samples from {duration(min(timing.samples_ns))} "
        f"to {duration(max(timing.samples_ns))}"
    )
    line = f'<line class="axis" x1="0" x2="{width}" y1="10" y2="10"/>'
    mean = f'<rect class="mark" x="{half - 1:g}" y="4" width="2" height="12"/>'
    return _svg(width, 20, label, [line, *dots, mean], kind="strip")


def error_map(mismatch: Mismatch) -> Markup:
    """Return where in a tensor elements are wrong; darker where more of them are. Empty without a map."""
    tiles = mismatch.tiles
    if mismatch.total < 2 or not tiles or not any(map(any, tiles)):
        return Markup("")
    most = max(map(max, tiles))
    columns, rows = max(map(len, tiles)), len(tiles)
    side = max(4, min(24, 576 // columns))
    high = max(4, min(side, 288 // rows))
    parts = []
    for y, row in enumerate(tiles):
        for x, count in enumerate(row):
            shade = f"bad{_shade(count, most)}" if count else "right"
            title = f"<title>{count:,} wrong</title>" if count else ""
            parts.append(
                f'<rect class="{shade}" x="{x * side}" y="{y * high}" width="{side - 1}" '
                f'height="{high - 1}">{title}</rect>'
            )
    with_errors = sum(1 for row in tiles for count in row if count)
    label = f"{with_errors} of {sum(map(len, tiles))} parts of the tensor have wrong elements"
    return _svg(columns * side, rows * high, label, parts, kind="map")


def map_caption(mismatch: Mismatch) -> str:
    """Say what an error map shows."""
    shape = " × ".join(f"{size:,}" for size in mismatch.shape) or "one value"
    if len(mismatch.shape) < 2 or mismatch.total == mismatch.shape[-1]:
        return f"All {mismatch.total:,} elements in {sum(map(len, mismatch.tiles)):,} parts, row by row"
    sizes = f"{len(mismatch.tiles)} × {max(map(len, mismatch.tiles))} parts"
    others = "" if len(mismatch.shape) == 2 else "; the last dimension runs to the right"
    return f"The answer, {shape}, in {sizes}{others}"


def timeline(phases: Sequence[tuple[str, float]]) -> Markup:
    """Return how long each phase took, as parts of one bar."""
    total = sum(seconds for _, seconds in phases)
    if total <= 0:
        return Markup("")
    parts, x = [], 0.0
    for name, seconds in phases:
        wide = 1000 * seconds / total
        title = escape(f"{name}: {seconds:.1f} s, {percent(seconds / total)}")
        kind = "judged" if name in JUDGED else "phase"
        shown = max(wide - 1.5, 0.5)
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" width="{shown:.1f}" height="14"><title>{title}</title></rect>'
        )
        x += wide
    told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in phases)
    head = '<svg class="timeline" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img"'
    return Markup(f'{head} aria-label="{escape(told)}">{"".join(parts)}</svg>')


def cells(done: int, planned: int) -> Markup:
    """Return how many cases are done, a cell for each; of very many cases a cell for several."""
    if planned < 1:
        return Markup("")
    count = min(planned, LIVE_CELLS)
    full = count * min(done, planned) // planned
    parts = [
        f'<rect class="{"mark" if at < full else "right"}" x="{at * 12}" y="1" width="10" height="10" rx="2"/>'
        for at in range(count)
    ]
    return _svg(count * 12, 12, f"{done} of {planned} cases are done", parts, kind="cells")


def _shade(count: int, most: int) -> int:
    """Return from 1 to ``SHADES`` how dark a part is, by the logarithm: one wrong element is seen, too."""
    if most <= 1:
        return SHADES
    return SMALLEST_SHADE + round((SHADES - SMALLEST_SHADE) * math.log(count) / math.log(most))


def _svg(width: float, height: float, label: str, parts: Sequence[str], *, kind: str) -> Markup:
    head = (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{escape(label)}">'
    )
    return Markup(head + "".join(parts) + "</svg>")
