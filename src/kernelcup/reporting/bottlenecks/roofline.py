"""The roofline of a profile as an SVG picture: operations a second over operations for each byte.

Kernels have the numbers of their lines in the table of kernels: names would hide each other, and on a phone there is
no room for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from kernelcup.reporting.bottlenecks.explain import short
from kernelcup.reporting.bottlenecks.launches import FP16_OPERATIONS, Group, Launch, groups
from kernelcup_harness.protocol import Counters

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 346, 56, 54, 34, 16
MOST_POINTS = 5
LEAST_SHARE = 0.05
SIDES = ((14, 0), (-14, 0), (0, -15), (0, 15), (12, -12), (-12, 12))
"""Where a number may stand beside its point, the best place first."""
LEAST, MOST = 1e-12, 1e24
"""Between these lies each figure of a real launch: counters of a machine or a submission may be forged."""
ROOM = 18.0
"""What a number keeps from other numbers and points."""


def picture(found: Counters) -> str:
    """Return the picture; empty where no kernel has operations or bytes."""
    shown = {
        number: each
        for number, each in enumerate(groups(found.kernels), 1)
        if each.share >= LEAST_SHARE and is_shown(each.longest)
    }
    return _Picture(dict(list(shown.items())[:MOST_POINTS])).svg() if shown else ""


def is_shown(seen: Launch) -> bool:
    """Return whether a launch has a place in the picture."""
    needed = (seen.flops, seen.dram_bytes, seen.seconds, seen["dram_peak"], seen["dram_hz"])
    return all(LEAST < each < MOST for each in needed)


class _Picture:
    """Scales are logarithmic and follow from roofs and kernels."""

    def __init__(self, shown: Mapping[int, Group]) -> None:
        self._shown = shown
        launches = [each.longest for each in shown.values()]
        self._memory = launches[0]["dram_peak"] * launches[0]["dram_hz"]
        self._roofs = roofs(launches)
        across = [each.intensity for each in launches]
        ridges = [roof / self._memory for roof in self._roofs.values()]
        up = [each.flops / each.seconds for each in launches]
        # Ridges too lie within the axes: a roof below them would be drawn along an edge.
        self._x = _axis(min([*across, *ridges]), max([*across, *ridges]))
        self._y = _axis(min([*up, *self._roofs.values()]), max([*up, *self._roofs.values()]))

    def svg(self) -> str:
        """Return the whole picture."""
        names = "; ".join(f"{number} {short(each.name)}" for number, each in self._shown.items())
        head = (
            f'<svg class="plot roofline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="Roofline: {escape(names)}" xmlns="http://www.w3.org/2000/svg">'
        )
        return "".join([head, *self._grid(), *self._lines(), *self._points(), "</svg>"])

    def _at(self, intensity: float, rate: float) -> tuple[float, float]:
        x = LEFT + _place(intensity, self._x) * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - _place(rate, self._y) * (HEIGHT - BOTTOM - TOP)

    def _grid(self) -> list[str]:
        found = []
        for exponent in range(self._x[0], self._x[1] + 1):
            x, y = self._at(10.0**exponent, 10.0 ** self._y[0])
            found.append(f'<line class="axis" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y:.1f}"/>')
            found.append(f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{10.0**exponent:g}</text>')
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
        return [*found, f'<text x="4" y="{TOP - 16}">TFLOP/s</text>']

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

    def _points(self) -> list[str]:
        places = {
            number: self._at(each.longest.intensity, each.longest.flops / each.longest.seconds)
            for number, each in self._shown.items()
        }
        taken = list(places.values())
        found = []
        for number, (x, y) in places.items():
            around = [(x + right, y + down) for right, down in SIDES]
            others = [each for each in taken if each != (x, y)]
            free = [each for each in around if all(math.dist(each, other) >= ROOM for other in others)]
            label = (free or around)[0]
            taken.append(label)
            title = escape(self._shown[number].name[:200])
            found.append(
                f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{title}</title></circle>'
                f'<text class="number" x="{label[0]:.1f}" y="{label[1] + 4:.1f}" text-anchor="middle">{number}</text>'
            )
        return found


def roofs(shown: list[Launch]) -> dict[str, float]:
    """Return the peaks in operations a second: FP32 always, FP16 and tensor cores where they were used."""
    found = {}
    first = shown[0]
    if first["ffma_peak"] and first["hz"]:
        found["FP32"] = 2.0 * first["ffma_peak"] * first["hz"]
    if first["hfma_peak"] and first["hz"] and any(each[name] for each in shown for name in FP16_OPERATIONS):
        found["FP16"] = 4.0 * first["hfma_peak"] * first["hz"]
    busy = [each for each in shown if each["tensor_pct"] >= 1.0 and each["tensor_flops"]]
    if busy:
        best = max(busy, key=lambda each: each["tensor_pct"])
        found["tensor cores"] = best["tensor_flops"] / best.seconds / best["tensor_pct"] * 100.0
    return {name: roof for name, roof in found.items() if LEAST < roof < MOST}


def _axis(low: float, high: float) -> tuple[int, int]:
    """Return the exponents of ten at which an axis begins and ends."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return begin, max(end, begin + 1)


def _place(value: float, axis: tuple[int, int]) -> float:
    """Return where a value is on an axis, from 0 to 1."""
    return min(1.0, max(0.0, (math.log10(value) - axis[0]) / (axis[1] - axis[0])))
