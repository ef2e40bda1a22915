"""The roofline of a profile as an SVG picture: operations a second over operations for each byte."""

from __future__ import annotations

import math
from html import escape

from kernelcup.reporting.bottlenecks.explain import short
from kernelcup.reporting.bottlenecks.launches import Group, Launch, groups
from kernelcup_harness.protocol import Counters

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 320, 56, 40, 16, 16
MOST_POINTS = 5
LEAST_SHARE = 0.05
LINE = 13.0
"""Height of a label."""


def picture(found: Counters) -> str:
    """Return the picture; empty where no kernel has operations or bytes."""
    shown = [each for each in groups(found.kernels) if each.share >= LEAST_SHARE and is_shown(each.longest)]
    if not shown:
        return ""
    return _Picture(shown[:MOST_POINTS]).svg()


def is_shown(seen: Launch) -> bool:
    """Return whether a launch has a place in the picture."""
    return bool(seen.flops and seen.dram_bytes and seen.seconds and seen["dram_peak"] and seen["dram_hz"])


class _Picture:
    """Scales are logarithmic and follow from roofs and kernels."""

    def __init__(self, shown: list[Group]) -> None:
        self._shown = shown
        self._taken: list[float] = []
        """Heights of the labels so far."""
        first = shown[0].longest
        self._memory = first["dram_peak"] * first["dram_hz"]
        self._roofs = roofs([each.longest for each in shown])
        across = [each.longest.intensity for each in shown]
        ridges = [roof / self._memory for roof in self._roofs.values()]
        up = [each.longest.flops / each.longest.seconds for each in shown]
        self._x = _axis(min(across), max([*across, *ridges]))
        self._y = _axis(min(up), max([*up, *self._roofs.values()]))

    def svg(self) -> str:
        """Return the whole picture."""
        names = "; ".join(short(each.name) for each in self._shown)
        head = (
            f'<svg class="plot roofline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="Roofline: {escape(names)}" xmlns="http://www.w3.org/2000/svg">'
        )
        points = [self._point(each) for each in self._shown]
        return "".join([head, *self._grid(), *self._lines(), *points, "</svg>"])

    def _at(self, intensity: float, rate: float) -> tuple[float, float]:
        x = LEFT + _place(intensity, self._x) * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - _place(rate, self._y) * (HEIGHT - BOTTOM - TOP)

    def _grid(self) -> list[str]:
        found = []
        for exponent in range(self._x[0], self._x[1] + 1):
            x, y = self._at(10.0**exponent, 10.0 ** self._y[0])
            found.append(f'<line class="axis" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}"/>')
            found.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{10.0**exponent:g}</text>')
        for exponent in range(self._y[0], self._y[1] + 1):
            x, y = self._at(10.0 ** self._x[0], 10.0**exponent)
            found.append(f'<line class="axis" x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
            found.append(
                f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** (exponent - 12):g}</text>'
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        found.append(
            f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">operations for each byte of memory</text>'
        )
        return [*found, f'<text x="4" y="{TOP - 4}">TFLOP/s</text>']

    def _lines(self) -> list[str]:
        found = []
        left, right = 10.0 ** self._x[0], 10.0 ** self._x[1]
        for name, roof in self._roofs.items():
            ridge = roof / self._memory
            low = max(left, 10.0 ** self._y[0] / self._memory)
            corners = [self._at(low, low * self._memory), self._at(ridge, roof), self._at(right, roof)]
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
            found.append(f'<polyline class="step" points="{points}"/>')
            x, y = corners[-1]
            found.append(f'<text x="{x:.1f}" y="{y - 4:.1f}" text-anchor="end">{escape(name)}</text>')
        return found

    def _point(self, group: Group) -> str:
        seen = group.longest
        x, y = self._at(seen.intensity, seen.flops / seen.seconds)
        height = y + 4.0
        while any(abs(height - each) < LINE for each in self._taken):
            height += LINE
        self._taken.append(height)
        side, end = (-8, "end") if x > WIDTH / 2 else (8, "start")
        return (
            f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{escape(group.name[:200])}</title></circle>'
            f'<text x="{x + side:.1f}" y="{height:.1f}" text-anchor="{end}">'
            f"{escape(short(group.name)[:32])} ({group.share:.0%})</text>"
        )


def roofs(shown: list[Launch]) -> dict[str, float]:
    """Return the peaks in operations a second: FP32 always, tensor cores where they were used."""
    found = {}
    first = shown[0]
    if first["ffma_peak"] and first["hz"]:
        found["FP32"] = 2.0 * first["ffma_peak"] * first["hz"]
    busy = [each for each in shown if each["tensor_pct"] >= 1.0 and each["tensor_flops"]]
    if busy:
        best = max(busy, key=lambda each: each["tensor_pct"])
        found["tensor cores"] = best["tensor_flops"] / best.seconds / best["tensor_pct"] * 100.0
    return found


def _axis(low: float, high: float) -> tuple[int, int]:
    """Return the exponents of ten at which an axis begins and ends."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return begin, max(end, begin + 1)


def _place(value: float, axis: tuple[int, int]) -> float:
    """Return where a value is on an axis, from 0 to 1."""
    return min(1.0, max(0.0, (math.log10(value) - axis[0]) / (axis[1] - axis[0])))
