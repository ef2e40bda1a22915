"""Facts shown beside a time in a ranking: the reference's time, the device's limit, the code's ingredients."""

from __future__ import annotations

import math
import statistics
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kernelcup.app.boards import visibility
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.results.queries import facts as stored
from kernelcup.app.results.standings import seen
from kernelcup.domain import OPERATOR, Actor, RankingBy, Standing
from kernelcup.engine import Database, Session, database_of
from kernelcup.reporting.made_of import MadeOf, by_time, made_of
from kernelcup.scoring import beside_s, counting
from kernelcup_harness.protocol import CaseResult, RanKernel, RunReport, StageName, Verdict, trimmed_mean

MOST_REMEMBERED = 20_000
"""Reports and texts never change, and reading a page of them takes long."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """Other times of a run, combined from its cases in the same way as the score."""

    reference_s: float | None
    """The time of the task's reference in the same run."""
    attainable_s: float | None
    """The least time in which the device can do the work that the task declares."""
    of_floor: float | None
    """The floor over the run's time, the geometric mean over its cases."""
    of_baseline: float | None
    """The same of the task's baseline, or of its reference where it has none."""
    ran: tuple[RanKernel, ...]
    """The kernels of one timed call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultFacts:
    """Facts shown beside a place."""

    reference_s: float | None
    attainable_s: float | None
    made_of: MadeOf | None
    """None on a pseudonymous leaderboard, where it might reveal the author."""

    def share(self, score_s: float) -> float | None:
        """Return the share of the device's limit that a time reaches; 1 is all of it."""
        return None if self.attainable_s is None else self.attainable_s / score_s

    def speedup(self, score_s: float) -> float | None:
        """Return the speedup of a time over the reference."""
        return None if self.reference_s is None else self.reference_s / score_s


NOTHING = ResultFacts(reference_s=None, attainable_s=None, made_of=None)


def facts_of(
    db: Database, board: str, device: str, places: Sequence[Standing], *, viewer: Actor = OPERATOR
) -> dict[int, ResultFacts]:
    """Return the facts for places that the viewer sees, by their submissions' numbers.

    Raises:
        NotFound, UnknownDevice: As for the standings.
    """
    if not places:
        return {}
    with db.read() as session:
        found, name, frozen = seen(session, board, device, viewer)
        own = viewer.name if visibility.is_masked(found, viewer) else None
        numbers = [each.submission_id for each in places]
        behind = stored.behind(session, board_id=found.id, device=name, frozen=frozen, submission_ids=numbers)
        where = database_of(session)
        runs = read_beside(session, {each.run_id for each in behind.values()})
        texts = _TEXTS.get(
            where,
            {each.code_hash for each in behind.values()},
            lambda missing: {key: made_of(text) for key, text in stored.codes(session, missing).items()},
        )
    return {
        each.submission_id: _facts(
            runs.get(behind[each.submission_id].run_id),
            texts.get(behind[each.submission_id].code_hash) if own in (None, each.user) else None,
        )
        for each in places
        if each.submission_id in behind
    }


def beside_of(
    db: Database, board: str, device: str, places: Sequence[Standing], *, viewer: Actor = OPERATOR
) -> dict[int, Beside]:
    """Return the other times of the runs behind places that the viewer sees, by their submissions' numbers.

    Raises:
        NotFound, UnknownDevice: As for the standings.
    """
    with db.read() as session:
        found, name, frozen = seen(session, board, device, viewer)
        numbers = [each.submission_id for each in places]
        behind = stored.behind(session, board_id=found.id, device=name, frozen=frozen, submission_ids=numbers)
        runs = read_beside(session, {each.run_id for each in behind.values()})
    return {number: runs[each.run_id] for number, each in behind.items() if each.run_id in runs}


def read_beside(session: Session, run_ids: Collection[int]) -> dict[int, Beside]:
    """Return the other times of runs, by their ids."""
    where = database_of(session)
    return _RUNS.get(where, run_ids, lambda missing: _read(session, missing))


def read_public_times(session: Session, run_id: int, task_hash: str) -> Mapping[int, float]:
    """Return in how many nanoseconds a ranked run did its public cases; none of another task version's."""
    where = database_of(session)
    found = _TIMES.get(
        where,
        [run_id],
        lambda missing: {
            key: (its, _public_times(report))
            for key, (its, report) in stored.reports(session, missing).items()
        },
    )
    its, times = found.get(run_id, ("", {}))
    return times if its == task_hash else {}


def _public_times(report: RunReport) -> dict[int, float]:
    stage = report.stage_report(StageName.RANKED)
    return {
        case.index: case.timing.score_ns
        for case in (stage.cases if stage is not None else ())
        if not case.hidden and case.timing is not None and case.verdict is Verdict.ACCEPTED
    }


def _facts(beside: Beside | None, made: MadeOf | None) -> ResultFacts:
    if beside is None:
        return ResultFacts(reference_s=None, attainable_s=None, made_of=made)
    if made is not None:
        made = by_time(made, beside.ran)
    return ResultFacts(reference_s=beside.reference_s, attainable_s=beside.attainable_s, made_of=made)


def _read(session: Session, run_ids: Collection[int]) -> dict[int, Beside]:
    found = stored.reports(session, run_ids)
    return {
        run_id: _beside(report, task_versions.judged_by(session, task_hash, report.harness)[0])
        for run_id, (task_hash, report) in found.items()
    }


def _beside(report: RunReport, rule: RankingBy) -> Beside:
    return Beside(
        reference_s=beside_s(report, rule, lambda case: case.reference_ns),
        attainable_s=beside_s(report, rule, lambda case: case.floor_ns),
        of_floor=_mean_ratio(report, rule, lambda case: case.floor_ns),
        of_baseline=_mean_ratio(report, rule, _baseline_ns),
        ran=tuple(report.ran),
    )


def _mean_ratio(
    report: RunReport, rule: RankingBy, time_ns: Callable[[CaseResult], float | None]
) -> float | None:
    """Return the geometric mean, over the ranked cases that count, of another time over the submission's.

    Return None if a case that counts lacks one of the times.
    """
    stage = report.stage_report(StageName.RANKED)
    cases = [] if stage is None else counting(stage.cases, rule)
    pairs = [(time_ns(case), None if case.timing is None else case.timing.score_ns) for case in cases]
    ratios = [other / own for other, own in pairs if other and own and 0 < other / own < math.inf]
    return statistics.geometric_mean(ratios) if ratios and len(ratios) == len(pairs) else None


def _baseline_ns(case: CaseResult) -> float | None:
    return trimmed_mean(case.baseline_ns) if case.baseline_ns else case.reference_ns


class Remembered(Generic[K, V]):
    """A cache of immutable values, limited to the most recently used ones."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._known: OrderedDict[tuple[str, K], V] = OrderedDict()
        self._most = most
        self._lock = threading.Lock()

    def get(
        self, where: str, keys: Collection[K], read: Callable[[Collection[K]], Mapping[K, V]]
    ) -> dict[K, V]:
        """Return the values for some keys of a database; read those that are not cached."""
        with self._lock:
            found = {key: self._known[where, key] for key in keys if (where, key) in self._known}
        missing = [key for key in keys if key not in found]
        fresh = read(missing) if missing else {}
        with self._lock:
            for key, value in fresh.items():
                self._known[where, key] = value
            for key in keys:
                if (where, key) in self._known:
                    self._known.move_to_end((where, key))
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found | dict(fresh)


_RUNS: Remembered[int, Beside] = Remembered()
_TEXTS: Remembered[str, MadeOf] = Remembered()
_TIMES: Remembered[int, tuple[str, Mapping[int, float]]] = Remembered(1000)
