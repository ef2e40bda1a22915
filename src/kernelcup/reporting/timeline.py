"""The timeline of a traced call as a picture: what the device did, one row for each stream.

A trace comes from the submission's process, so it may be forged: it is read within limits, and its texts are escaped.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from kernelcup.reporting.bottlenecks import explain

MOST_BYTES = 64 << 20
"""Of a trace, unpacked."""
MOST_BARS = 2_000
DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
HOST = frozenset({"cpu_op"})
WIDTH, ROW, LEFT, TOP = 720, 24, 8, 6
LETTER = 6.5
"""Width of a letter of a name in a bar."""
FEWEST_LETTERS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """What one row did for a while; times in microseconds."""

    row: str
    name: str
    start_us: float
    lasts_us: float


def picture(trace_gz64: str) -> str:
    """Return the timeline of a trace as SVG: of the device, or of the host where no device took part; empty if none."""
    events = events_of(trace_gz64)
    bars = bars_of(events, DEVICE) or bars_of(events, HOST)
    if not bars:
        return ""
    begin = min(each.start_us for each in bars)
    span = max(max(each.start_us + each.lasts_us for each in bars) - begin, 1e-9)
    rows = sorted({each.row for each in bars})
    scale = (WIDTH - 2 * LEFT) / span
    drawn = [_bar(each, TOP + rows.index(each.row) * ROW, begin, scale) for each in bars]
    height = TOP + len(rows) * ROW + 20
    label = f"{len(bars)} activities on {len(rows)} streams in {span:.1f} µs"
    return (
        f'<svg class="plot timeline" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f'{"".join(drawn)}<text x="{LEFT}" y="{height - 3}">0</text>'
        f'<text x="{WIDTH - LEFT}" y="{height - 3}" text-anchor="end">{span:.1f} µs</text></svg>'
    )


def _bar(bar: Bar, y: int, begin_us: float, scale: float) -> str:
    """Return a bar, with its name in it where there is room."""
    x, wide = LEFT + (bar.start_us - begin_us) * scale, max(bar.lasts_us * scale, 0.5)
    name = explain.demangled(bar.name)
    title = escape(f"{name[:200]}: {bar.lasts_us:.1f} µs from {bar.start_us - begin_us:.1f} µs")
    rect = f'<rect class="mark" x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{ROW - 6}"><title>{title}</title></rect>'
    short, letters = explain.short(name), int((wide - 8) / LETTER)
    if letters < FEWEST_LETTERS:
        return rect
    label = short if len(short) <= letters else short[: letters - 1] + "…"
    return f'{rect}<text class="name" x="{x + 4:.2f}" y="{y + ROW - 11}">{escape(label)}</text>'


def events_of(trace_gz64: str) -> Sequence[Any]:
    """Return the events of a trace; none if it cannot be read or is too large."""
    try:
        reader = zlib.decompressobj(wbits=31)
        body = reader.decompress(base64.b64decode(trace_gz64, validate=True), MOST_BYTES)
        found = json.loads(body)["traceEvents"]
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def bars_of(events: Sequence[Any], kinds: frozenset[str]) -> list[Bar]:
    """Return the events of some kinds that last; of nested ones of one row only the outermost."""
    found: list[Bar] = []
    ends: dict[str, float] = {}
    lasting = [each for each in events if isinstance(each, dict) and each.get("cat") in kinds]
    lasting = [each for each in lasting if all(is_time(each.get(name)) for name in ("ts", "dur"))]
    for each in sorted(lasting, key=lambda event: (event["ts"], -event["dur"])):
        row, start = str(each.get("tid", ""))[:20], float(each["ts"])
        if start < ends.get(row, 0.0):
            continue
        ends[row] = start + float(each["dur"])
        found.append(
            Bar(row=row, name=str(each.get("name", "")), start_us=start, lasts_us=float(each["dur"]))
        )
    return found[:MOST_BARS]


def is_time(value: object) -> bool:
    """Return whether a value of a trace is a time in microseconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
