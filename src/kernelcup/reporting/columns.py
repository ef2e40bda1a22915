"""The insights of a report about a case in words, short enough for a table column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelcup.reporting.insights import Insight
from kernelcup.reporting.phrases import (
    HALF,
    duration,
    percent,
    significant,
    slower,
    trust_text,
    with_interval,
)

Column = Callable[[Insight], str]
TIME = "time per call (95 %)"

RATES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def columns(learned: Sequence[Insight]) -> dict[str, Column]:
    """Return the columns that are not empty for all of these, by title."""
    return {name: read for name, read in _COLUMNS.items() if any(read(each) for each in learned)}


def summary(lesson: Insight) -> str:
    """Return one line with the context of a time: device, reference, best, clock."""
    parts = {
        "overhead {}": overhead(lesson),
        "self-measured {}": own(lesson),
        "raw {}": raw(lesson),
        "prepare {} before": prepare(lesson),
        "{} of what the device attains": attained(lesson),
        "{} of what the links carry": links(lesson),
        "{}": rates(lesson) if lesson.share is None else "",
        "{} the reference": _than(lesson.over_reference),
        "{} the best": _than(lesson.over_best),
    }
    known = [text.format(told) for text, told in parts.items() if told]
    return ", ".join(filter(None, [*known, clock(lesson)]))


def time(lesson: Insight) -> str:
    """Return the time with its interval."""
    return with_interval(lesson.time_ns, lesson.low_ns, lesson.high_ns)


def raw(lesson: Insight) -> str:
    """Return the time before anything was subtracted."""
    return duration(lesson.raw_ns) if lesson.raw_ns is not None else ""


def own(lesson: Insight) -> str:
    """Return the submission's own time."""
    return duration(lesson.own_ns) if lesson.own_ns is not None else ""


def overhead(lesson: Insight) -> str:
    """Return the part of the time that a call takes which computes nothing."""
    return duration(lesson.overhead_ns, digits=2) if lesson.overhead_ns is not None else ""


def prepare(lesson: Insight) -> str:
    """Return what the submission's `prepare` took before the calls."""
    return duration(lesson.prepare_ns) if lesson.prepare_ns is not None else ""


def calls(lesson: Insight) -> str:
    """Return how many calls there were, and how many did not count."""
    discarded = f" (+{lesson.discarded} discarded)" if lesson.discarded else ""
    return f"{lesson.calls or ''}{discarded}"


def attained(lesson: Insight) -> str:
    """Return the share of the device's limit, with the rates behind it; empty if it is unknown."""
    if lesson.share is None:
        return ""
    known = rates(lesson)
    return f"{percent(lesson.share)} ({known})" if known else percent(lesson.share)


def links(lesson: Insight) -> str:
    """Return the share of the rate of the GPUs' links, with the rate; empty if it is unknown."""
    if lesson.link_share is None:
        return ""
    return f"{percent(lesson.link_share)} ({rate(lesson.link_bytes_per_s, 'B/s')})"


def rates(lesson: Insight) -> str:
    """Return what the kernel reads and computes in a second."""
    known = (rate(lesson.bytes_per_s, "B/s"), rate(lesson.flops_per_s, "FLOP/s"))
    return ", ".join(filter(None, known))


def rate(per_s: float | None, unit: str) -> str:
    """Return a rate, for example ``2.31 TB/s``; empty if it is unknown."""
    if per_s is None:
        return ""
    size, prefix = next(((size, prefix) for size, prefix in RATES if per_s >= size), RATES[-1])
    return f"{significant(per_s / size, 3)} {prefix}{unit}"


def times(factor: float | None) -> str:
    """Return how many times as fast something is: ``1.52x``, or ``470 times slower``."""
    if factor is None or factor <= 0:
        return ""
    return f"{significant(factor, 3)}x" if factor >= HALF else slower(factor)


def _than(factor: float | None) -> str:
    told = times(factor)
    return f"{told} than" if told.endswith("slower") else told


def clock(lesson: Insight) -> str:
    """Return how the time was taken."""
    return trust_text(lesson.trust) if lesson.trust is not None else ""


def notes(learned: Iterable[Insight]) -> dict[str, str]:
    """Return the notes about cases, each with the cases it applies to: ``cases 0, 1, 4``."""
    found: dict[str, list[int]] = {}
    for lesson in learned:
        for note in dict.fromkeys(lesson.notes):
            found.setdefault(note, []).append(lesson.index)
    return {
        note: f"{'case' if len(places) == 1 else 'cases'} {', '.join(map(str, places))}"
        for note, places in found.items()
    }


def evidence_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about the evidence of a review, with figures of measurements but without their samples."""
    for each in evidence.get("findings", ()):
        yield f"{each['code']}: {each['text']}"
    for each in evidence.get("cases", ()):
        yield _case_line(each)
    for name, value in evidence.items():
        if name not in ("findings", "cases", "calibration"):
            yield f"{name}: {value}" if isinstance(value, str) else f"{name}: {_plain_list(value)}"


def _case_line(each: Mapping[str, Any]) -> str:
    figures = {
        "score": each["score_ns"],
        "raw": each["raw_ns"],
        "floor": each["floor_ns"],
    }
    told = ", ".join(
        f"{name} {duration(ns)}" for name, ns in figures.items() if isinstance(ns, int | float) and ns > 0
    )
    hidden = " (hidden)" if each["hidden"] else ""
    return f"case {each['case']}{hidden}: {told}; {len(each['samples_ns'])} samples"


def _plain_list(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_COLUMNS: dict[str, Column] = {
    TIME: time,
    "overhead": overhead,
    "self-measured": own,
    "raw": raw,
    "prepare": prepare,
    "calls": calls,
    "of attainable": attained,
    "of the links": links,
    "rate": lambda lesson: rates(lesson) if lesson.share is None else "",
    "reference": lambda lesson: times(lesson.over_reference),
    "best": lambda lesson: times(lesson.over_best),
    "clock": clock,
}
