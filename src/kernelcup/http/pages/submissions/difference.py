"""What changed between two submissions: lines of text, and times of each case side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from markupsafe import Markup

from kernelcup.clean_text import plain
from kernelcup.domain import Run
from kernelcup.http.pages.figures import NS, TimeScale
from kernelcup.http.pages.submissions import report_words
from kernelcup.http.pages.texts import coloured
from kernelcup.reporting import phrases
from kernelcup.reporting.insights import Insight, lessons
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import CaseResult, SourceTree, StageName

MOST_LINES = 3000
"""Of longer files no difference is made: it would take long."""
AROUND = 3

TIMED = (StageName.RANKED, StageName.BENCHMARK)


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of a difference."""

    kind: str
    """``same``, ``out``, ``in``, or ``gap`` where lines are left out."""
    old: int | None
    new: int | None
    text: Markup


@dataclass(frozen=True, kw_only=True, slots=True)
class CasePair:
    """A case in both submissions."""

    case: CaseResult
    old: Insight | None
    new: Insight | None
    change: str
    """``−5.6 %``; empty where one of them has no time."""
    sure: bool
    """Whether the two intervals do not touch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePair:
    """The times of both on one device."""

    device: str
    stage: str
    scale: TimeScale
    cases: tuple[CasePair, ...]
    same_task: bool
    keys: tuple[str, ...]
    old: Run
    new: Run


def files(old: SourceTree, new: SourceTree) -> dict[str, list[Line] | None]:
    """Return the changes of each file that differs, by name; see :func:`lines`. Two single files are one file."""
    if len(old.files) == len(new.files) == 1:
        old = SourceTree.of(old.code, new.entry)
    names = list(dict.fromkeys([*new.in_order, *old.in_order]))
    pairs = {name: (plain(old.files.get(name, "")), plain(new.files.get(name, ""))) for name in names}
    return {name: lines(*pair, name) for name, pair in pairs.items() if pair[0] != pair[1]}


def lines(old: str, new: str, file_name: str) -> list[Line] | None:
    """Return the changed lines with a few around them; None of files that are too long."""
    old, new = old.rstrip("\n"), new.rstrip("\n")
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > MOST_LINES:
        return None
    shown_before, shown_after = (_coloured(text, file_name) for text in (old, new))
    found: list[Line] = []
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(AROUND):
        found.append(Line(kind="gap", old=None, new=None, text=Markup("")))
        for kind, a, b, c, d in group:
            if kind == "equal":
                pairs = zip(range(a, b), range(c, d), strict=True)
                found += [Line(kind="same", old=at + 1, new=to + 1, text=shown_after[to]) for at, to in pairs]
                continue
            found += [Line(kind="out", old=at + 1, new=None, text=shown_before[at]) for at in range(a, b)]
            found += [Line(kind="in", old=None, new=at + 1, text=shown_after[at]) for at in range(c, d)]
    return found


def times(old: SubmissionInfo, new: SubmissionInfo) -> list[DevicePair]:
    """Return the times of each case, for each device on which both were judged."""
    earlier = {each.device: each.counted for each in old.jobs if each.counted is not None}
    found = []
    for each in new.jobs:
        before, after = earlier.get(each.device), each.counted
        pair = None if before is None or after is None else _pair(each.device, before, after)
        if pair is not None:
            found.append(pair)
    return found


def _pair(device: str, old: Run, new: Run) -> DevicePair | None:
    for name in TIMED:
        before, after = lessons(old.report, name), lessons(new.report, name)
        if before and after:
            stage = new.report.stage_report(name)
            assert stage is not None
            cases = tuple(_cases(stage.cases, before, after, same=old.task_hash == new.task_hash))
            every = [*before.values(), *after.values()]
            return DevicePair(
                device=device,
                stage=report_words.stage_text(name),
                scale=TimeScale.of(each.time_ns / NS for each in every),
                cases=cases,
                keys=report_words.shared_keys(stage.cases),
                same_task=old.task_hash == new.task_hash,
                old=old,
                new=new,
            )
    return None


def _cases(
    cases: list[CaseResult], before: dict[int, Insight], after: dict[int, Insight], *, same: bool
) -> Iterator[CasePair]:
    for case in cases:
        old, new = before.get(case.index) if same else None, after.get(case.index)
        if case.hidden and old is None and new is None:
            continue
        yield CasePair(case=case, old=old, new=new, change=change_text(old, new), sure=is_sure(old, new))


def change_text(old: Insight | None, new: Insight | None) -> str:
    """Return by how much a time has changed; empty where one of them is not known."""
    if old is None or new is None:
        return ""
    return phrases.change_text(new.time_ns / old.time_ns)


def is_sure(old: Insight | None, new: Insight | None) -> bool:
    """Return whether two times differ by more than their intervals."""
    ends = [each for lesson in (old, new) if lesson is not None for each in (lesson.low_ns, lesson.high_ns)]
    if len(ends) != 4 or None in ends:
        return False
    low, high, new_low, new_high = (float(each or 0.0) for each in ends)
    return new_high < low or new_low > high


def _coloured(text: str, file_name: str) -> list[Markup]:
    """Return a text's lines in colours; a word in colour ends with its line."""
    shown = [Markup(each) for each in coloured(text, file_name).split("\n")]
    return shown + [Markup("")] * (text.count("\n") + 1 - len(shown))
