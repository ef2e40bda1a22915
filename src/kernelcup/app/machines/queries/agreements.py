"""Whether classes of machines give the same times, and what that is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from kernelcup.engine.database import upsert
from kernelcup.engine.views import once
from kernelcup.tables import ClassAgreementRow, JobRow, RunRow
from kernelcup_harness.protocol import Mode

MOST_PAIRS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One submission that two machines have judged, with the scores in seconds and the ends of their intervals."""

    submission_id: int
    first: tuple[float, float, float]
    """Score, low end, high end."""
    second: tuple[float, float, float]

    @property
    def agrees(self) -> bool:
        """Whether the intervals overlap."""
        return self.first[1] <= self.second[2] and self.second[1] <= self.first[2]


def pairs(session: Session, first: str, second: str, *, device: str) -> list[Pair]:
    """Return the ranked submissions that both machines have judged against the same task, the newest runs of each."""
    one, two = aliased(RunRow), aliased(RunRow)
    query = (
        select(JobRow.submission_id, one.score_s, one.low_s, one.high_s, two.score_s, two.low_s, two.high_s)
        .join(one, one.job_id == JobRow.id)
        .join(two, two.job_id == JobRow.id)
        .where(JobRow.device == device, JobRow.mode == Mode.LEADERBOARD.value)
        .where(one.machine == first, two.machine == second, one.judging == two.judging)
        .where(one.high_s.is_not(None), two.high_s.is_not(None), one.clock == two.clock)
        .order_by(one.id, two.id)
        .limit(MOST_PAIRS)
    )
    found: dict[int, Pair] = {}
    rows: Any = session.execute(query)  # the query leaves out those without an interval
    for submission_id, *figures in rows:
        one_s, one_low_s, one_high_s, two_s, two_low_s, two_high_s = figures
        found[submission_id] = Pair(
            submission_id=submission_id,
            first=(one_s, one_low_s, one_high_s),
            second=(two_s, two_low_s, two_high_s),
        )
    return list(found.values())


def put(session: Session, classes: Sequence[str], *, device: str, agrees: bool, now: datetime) -> None:
    """Store whether two classes agree on a device, in place of what was found before."""
    first, second = sorted(classes)
    found = {"agrees": agrees, "compared_at": now}
    offer = upsert(session, ClassAgreementRow).values(device=device, first=first, second=second, **found)
    session.execute(offer.on_conflict_do_update(index_elements=["device", "first", "second"], set_=found))


Groups = Mapping[tuple[str, str], str]
"""The name under which a class ranks together with others, by device and class; other classes rank alone."""


@once
def groups(session: Session) -> Groups:
    """Return the groups of classes in which each two were shown to agree.

    Agreement need not be transitive: a class that agrees with some of a group only is not in it.
    """
    query = select(ClassAgreementRow.device, ClassAgreementRow.first, ClassAgreementRow.second)
    agreed = {tuple(row) for row in session.execute(query.where(ClassAgreementRow.agrees))}
    found: list[tuple[str, list[str]]] = []
    for device, each in sorted({(device, each) for device, *pair in agreed for each in pair}):
        for on, group in found:
            if on == device and all((device, one, each) in agreed for one in group):
                group.append(each)
                break
        else:
            found.append((device, [each]))
    return {(on, each): " or ".join(group) for on, group in found for each in group if len(group) > 1}
