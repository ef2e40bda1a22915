"""Rules of grading: how they are written, and the points that they give to an attempt."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kernelcup.domain import Ruling
from kernelcup.errors import InvalidValue
from kernelcup.reporting.phrases import plural
from kernelcup_harness.protocol import Verdict

DAY_S = 86_400
LARGEST = 100_000
MOST_LINES = 50
_NUMBER = r"(\d{1,6}(?:\.\d{1,6})?)"
_FORMS = {
    "correct": re.compile(rf"correct {_NUMBER}"),
    "reference": re.compile(rf"reference {_NUMBER} {_NUMBER}"),
    "baseline": re.compile(rf"baseline {_NUMBER} {_NUMBER}"),
    "floor": re.compile(rf"floor {_NUMBER} {_NUMBER}"),
    "rank": re.compile(rf"rank (\d{{1,6}})(?:-(\d{{1,6}}))? {_NUMBER}"),
    "attempt": re.compile(r"attempt (best|last)"),
    "late": re.compile(rf"late (\d{{1,3}}) {_NUMBER}"),
    "cap": re.compile(rf"cap {_NUMBER}"),
}
EXAMPLES = {
    "correct": "correct 40",
    "reference": "reference 1.0 60",
    "baseline": "baseline 0.8 70",
    "floor": "floor 0.5 90",
    "rank": "rank 1-3 100",
    "attempt": "attempt best",
    "late": "late 3 10",
    "cap": "cap 100",
}


class Kind(StrEnum):
    """What a line asks for."""

    CORRECT = "correct"
    REFERENCE = "reference"
    """At most this share of the reference's time."""
    BASELINE = "baseline"
    """At most this share of the baseline's time."""
    FLOOR = "floor"
    """At least this share of what the device can do."""
    RANK = "rank"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line that gives points."""

    text: str
    kind: Kind
    points: float
    share: float = 0.0
    first: int = 0
    last: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Rules of grading of a leaderboard."""

    lines: Sequence[Line]
    is_last: bool = False
    """Whether the last attempt counts instead of the best."""
    late_days: int = 0
    late_penalty: float = 0.0
    """Points for each day."""
    cap: float = math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A judged ranked submission on a device."""

    submission: int
    device: str
    submitted_at: datetime
    verdict: Verdict
    ruling: Ruling
    is_timed: bool
    """Whether times of its device mean something."""
    late_days: int
    shares: dict[Kind, float] = field(default_factory=dict)
    """Of the times that are known."""
    rank: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """The points of an attempt, and how they came about."""

    points: float
    because: str
    attempt: Attempt | None = None


def parse(text: str) -> Rules:
    """Read rules of grading: a rule on each line, or separated by semicolons.

    Raises:
        InvalidValue: Lines cannot be read; the text has each of them.
    """
    rows = [(number, row) for number, row in enumerate(re.split(r"[\n;]", text), 1) if row.strip()]
    lines: list[Line] = []
    settings: dict[str, re.Match[str]] = {}
    problems: list[str] = []
    for number, row in rows[:MOST_LINES]:
        plain = " ".join(row.lower().split())
        word = plain.partition(" ")[0]
        match = _FORMS[word].fullmatch(plain) if word in _FORMS else None
        if match is None:
            problems.append(f"line {number}: {row.strip()!r} is no rule{_hint(word)}")
        elif word in ("attempt", "late", "cap"):
            settings[word] = match
        else:
            lines.append(_line(plain, Kind(word), match.groups()))
    if len(rows) > MOST_LINES:
        problems.append(f"line {rows[MOST_LINES][0]}: at most {MOST_LINES} rules")
    if not lines and not problems and rows:
        problems.append("line 1: no rule gives points; for example: correct 40")
    if problems:
        raise InvalidValue(problems)
    late, cap = settings.get("late"), settings.get("cap")
    return Rules(
        lines=lines,
        is_last="attempt" in settings and settings["attempt"][1] == "last",
        late_days=0 if late is None else int(late[1]),
        late_penalty=0.0 if late is None else float(late[2]),
        cap=math.inf if cap is None else float(cap[1]),
    )


def _hint(word: str) -> str:
    if word in EXAMPLES:
        return f"; for example: {EXAMPLES[word]}"
    return f"; a rule begins with {', '.join(EXAMPLES)}"


def _line(text: str, kind: Kind, found: Sequence[str | None]) -> Line:
    points = float(found[-1] or 0)
    if kind is Kind.RANK:
        first = int(found[0] or 0)
        return Line(text=text, kind=kind, points=points, first=first, last=int(found[1] or first))
    return Line(text=text, kind=kind, points=points, share=float(found[0] or 0))


def grade(rules: Rules, attempts: Sequence[Attempt]) -> Points:
    """Return the points of the best attempt, or of the last, as the rules say."""
    if not attempts:
        return Points(points=0.0, because="No ranked submission was judged yet.")
    inside = [each for each in attempts if each.late_days <= rules.late_days]
    if not inside:
        told = f"Submission {attempts[-1].submission} came {plural(attempts[-1].late_days, 'day')} late"
        return Points(points=0.0, because=f"{told}; the rules allow {plural(rules.late_days, 'day')}.")
    if rules.is_last:
        last = max(each.submission for each in inside)
        inside = [each for each in inside if each.submission == last]
    return max((_points(rules, each) for each in inside), key=lambda each: (each.points, _rank(each)))


def _rank(each: Points) -> tuple[bool, int]:
    attempt = each.attempt
    return (attempt is not None and not _refused(attempt), 0 if attempt is None else attempt.submission)


def _points(rules: Rules, attempt: Attempt) -> Points:
    who = f"Submission {attempt.submission} on {attempt.device}"
    if told := _refused(attempt):
        return Points(points=0.0, because=f"{who} {told}.", attempt=attempt)
    reached = [each for each in rules.lines if _reaches(each, attempt)]
    if not reached:
        return Points(points=0.0, because=f"{who} is correct, but reaches no rule.", attempt=attempt)
    best = max(reached, key=lambda each: each.points)
    points = min(best.points, rules.cap)
    parts = [f"{who} reaches “{best.text}”{_figure(best, attempt)}"]
    if best.points > rules.cap:
        parts.append(f"capped at {rules.cap:g}")
    if attempt.late_days:
        less = min(points, rules.late_penalty * attempt.late_days)
        parts.append(f"less {less:g} for {plural(attempt.late_days, 'day')} late")
        points -= less
    if not attempt.is_timed and any(each.kind is not Kind.CORRECT for each in rules.lines):
        parts.append("times mean nothing on this device, so only correctness counts")
    return Points(points=points, because=f"{'; '.join(parts)}: {points:g} points.", attempt=attempt)


def _reaches(line: Line, attempt: Attempt) -> bool:
    if line.kind is Kind.CORRECT:
        return True
    if not attempt.is_timed or attempt.ruling is Ruling.LEVEL:
        return False
    if line.kind is Kind.RANK:
        return attempt.rank is not None and line.first <= attempt.rank <= line.last
    share = attempt.shares.get(line.kind)
    if share is None:
        return False
    return share >= line.share if line.kind is Kind.FLOOR else share <= line.share


def _figure(line: Line, attempt: Attempt) -> str:
    share = attempt.shares.get(line.kind)
    match line.kind:
        case Kind.RANK:
            return f" with rank {attempt.rank}"
        case Kind.FLOOR if share is not None:
            return f" with {share:.3g} of what the device can do"
        case Kind.REFERENCE | Kind.BASELINE if share is not None:
            return f" with {share:.3g} of the {line.kind.value}'s time"
    return ""


def _refused(attempt: Attempt) -> str:
    """Return why an attempt gets no points, empty if it may get some."""
    match attempt.ruling:
        case Ruling.COUNTS | Ruling.PRACTICE | Ruling.LEVEL:
            return ""
        case Ruling.NO_TIME:
            return f"failed: {attempt.verdict.value.replace('_', ' ')}"
        case Ruling.HELD:
            return "waits for a review, so it does not count yet"
        case Ruling.REJECTED:
            return "was rejected in a review"
        case Ruling.HIDDEN:
            return "was judged after the freeze, so it counts when the table is unveiled"
        case Ruling.OUTDATED:
            return "was judged by an earlier version of the task, so it has to be judged again"
    return "has no result"


def days_late(submitted_at: datetime, deadline: datetime | None) -> int:
    """Return how many days a submission is late, counted from its user's own deadline; a begun day is one."""
    if deadline is None or submitted_at <= deadline:
        return 0
    return math.ceil((submitted_at - deadline).total_seconds() / DAY_S)
