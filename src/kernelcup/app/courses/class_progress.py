"""The progress of a leaderboard's members."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernelcup.app.boards import boards
from kernelcup.app.courses.membership import Member, members
from kernelcup.app.operation import Board, operation
from kernelcup.app.results import standings
from kernelcup.app.results.queries import runs
from kernelcup.domain import Actor, Leaderboard, Run, Standing
from kernelcup.engine import Database
from kernelcup_harness.protocol import StageName, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassResult:
    """What a member has reached on a device, practice aside; empty fields where that is nothing."""

    user: str
    """Empty until the person joins."""
    label: str
    name: str = ""
    group: str = ""
    pseudonym: str = ""
    device: str = ""
    rank: int | None = None
    seconds: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    speedup: float | None = None
    submission: int | None = None
    submitted_at: datetime | None = None
    ranked_by: str = ""
    submissions: int = 0
    """Of any mode."""
    last_verdict: str = ""
    tests_passed: str = ""
    """By the last submission: ``3 of 5``."""
    late: bool = False
    """Whether the result was submitted after the deadline, under an exception."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberProgress:
    """A member with their standings."""

    member: Member
    bests: Mapping[str, Standing]
    """By device, of several classes of machines the best rank; devices without a ranked result are left out."""


def progress_of(db: Database, actor: Actor, board: str) -> list[MemberProgress]:
    """Return the people of a leaderboard's register with their standings, in its order.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not see them.
    """
    found = members(db, actor, board)
    devices = boards.get_board(db, board, viewer=actor).devices
    bests: dict[str, dict[str, Standing]] = {each.user: {} for each in found}
    for device in devices:
        for place in standings.standings(db, board, device, viewer=actor):
            best = bests.get(place.user, {}).get(device)
            if place.user in bests and (best is None or place.rank < best.rank):
                bests[place.user][device] = place
    return [MemberProgress(member=each, bests=bests[each.user]) for each in found]


@operation("GET", "/leaderboards/{name}/members/results", "admin members results", subject="rules")
def results(db: Database, actor: Actor, board: Board) -> list[ClassResult]:
    """List what each person of the register has reached on each device, also without a result; as a command, in CSV.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not see it.
    """
    found = progress_of(db, actor, board)
    with db.read() as session:
        its = boards.find_board(session, board, actor)
        sent = runs.last_jobs(session, its.id)
        last = runs.counted(session, [job for _, job in sent.values() if job is not None])
    return [
        _result(each, device, its, count, None if job is None else last.get(job))
        for each in found
        for device in [name for name in its.devices if (each.member.user, name) in sent] or [""]
        for count, job in [sent.get((each.member.user, device), (0, None))]
    ]


def _result(of: MemberProgress, device: str, board: Leaderboard, count: int, last: Run | None) -> ClassResult:
    best, reached = of.bests.get(device), dict[str, Any]()
    if best is not None:
        score: dict[str, Any] = dict(zip(("seconds", "low_s", "high_s"), best.times_s, strict=True))
        score["speedup"] = best.score.speedup
        place = {"rank": best.rank, "submission": best.submission_id, "ranked_by": best.ranked_by.value}
        late = board.deadline is not None and best.submitted_at > board.deadline
        reached = score | place | {"submitted_at": best.submitted_at, "late": late}
    if last is not None:
        reached["last_verdict"] = last.verdict.value
    if last is not None and (tests := last.report.stage_report(StageName.TEST)) is not None:
        passed = sum(case.verdict is Verdict.ACCEPTED for case in tests.cases)
        reached["tests_passed"] = f"{passed} of {tests.planned_cases}"
    who: dict[str, Any] = {name: getattr(of.member, name) for name in ("user", "label", "name", "group")}
    who["pseudonym"] = of.member.pseudonym or ""
    return ClassResult(**who, device=device, submissions=count, **reached)


def as_csv(found: Sequence[ClassResult]) -> str:
    """Return results as CSV."""
    names = [each.name for each in dataclasses.fields(ClassResult)]
    return csv_text([names, *([getattr(each, name) for name in names] for each in found)])


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV; a text that begins like a formula stays text in a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for cells in rows:
        writer.writerow([f"'{cell}" if str(cell)[:1] in tuple("=+-@\t") else cell for cell in cells])
    return text.getvalue()
