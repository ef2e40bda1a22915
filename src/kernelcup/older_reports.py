"""Reports that an earlier version stored: they have fields of clocks that are out of use, which nothing reads."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kernelcup_harness.protocol import RunReport, from_json

TIMING = frozenset({"wall_ns", "late_ns", "handshakes_ns"})
AUDIT = frozenset(
    {
        "armed",
        "handshake_ns",
        "handshake_slack_ns",
        "slope_ns",
        "slope_slack_ns",
        "slope_calls",
        "slope_walls_ns",
        "noop_ns",
        "noop_before_ns",
    }
)
CALIBRATION = frozenset(
    {
        "offset_ns",
        "own_empty_ns",
        "empty_pair_ns",
        "empty_kernel_ns",
        "spin_line",
        "spin_points",
        "ring_slopes_ns",
        "handshake_ns",
        "handshake_residual_ns",
        "handshake_p99_ns",
    }
)


def read_report(body: object) -> RunReport:
    """Return a report from its JSON, without the fields of older clocks.

    Raises:
        ProtocolError: It is not a report.
    """
    body = _within(body, "calibration", lambda each: _without(each, CALIBRATION))
    return from_json(RunReport, _within(body, "stages", lambda stages: _each(stages, _stage)))


def _stage(body: object) -> object:
    return _within(body, "cases", lambda cases: _each(cases, _case))


def _case(body: object) -> object:
    return _within(body, "timing", _timing)


def _timing(body: object) -> object:
    return _within(_without(body, TIMING), "audit", lambda audit: _without(audit, AUDIT))


def _within(body: object, key: str, change: Callable[[object], object]) -> object:
    """Return an object with one value changed; what is no object, or lacks the key, stays as it is."""
    return {**body, key: change(body[key])} if isinstance(body, dict) and key in body else body


def _each(body: object, change: Callable[[object], object]) -> object:
    return list(map(change, body)) if isinstance(body, list) else body


def _without(body: object, keys: Collection[str]) -> object:
    return {key: body[key] for key in body if key not in keys} if isinstance(body, dict) else body
