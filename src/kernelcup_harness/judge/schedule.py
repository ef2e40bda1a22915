"""The schedule of calls: the stages of a job, and an unpredictable order of calls.

The contestant cannot distinguish warm-ups, timed calls and calls that are only checked, nor a new
input from an earlier one. All randomness comes from the job's secret, so that a run can be
repeated once the secret is revealed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelcup_harness.judge.budget import WARM_UP_S, Budget
from kernelcup_harness.judge.samples import Samples, timing_settled
from kernelcup_harness.protocol import (
    FEWEST_SAMPLES,
    Audit,
    Backend,
    JobSpec,
    Limits,
    MeasureRules,
    Mode,
    Parameters,
    SampleName,
    StageName,
    Timing,
    Verdict,
    Work,
)

MORE_WARMUPS = 3
"""A ranked case has fewer further warm-ups than this, drawn at random."""
LATE_SURPRISE = 0.02
"""Probability that a late call of a case uses an earlier input or a near-twin of one."""
PLACES = 4
"""Number of places at which inputs lie, in turns."""
MOST_DISCARDED = 4
FEWEST_UNRANKED = 2
"""Least number of samples of any other timed case: with fewer, their precision is unknown."""
CHECKING_SAMPLES, SLOW_CHECKING_SAMPLES = 8, 4
"""Calls by the start gun that check the witness, and those of cases that have little time."""
MOST_WATCHED = 32
"""Calls that the witness measures at most; the interval is then as wide as it is."""
WATCH_SHARE = 0.25
"""Probability that the next calls of a case are the witness's."""
SUBMISSION, HIDDEN = "submission", "hidden"
"""Contestants with the submission: for public cases, and for hidden ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCase:
    """A case of a stage."""

    index: int
    parameters: Parameters
    hidden: bool

    @property
    def role(self) -> str:
        """The contestant that it is called in."""
        return HIDDEN if self.hidden else SUBMISSION


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage of the run."""

    name: StageName
    cases: list[PlannedCase]
    limit_s: float
    timed: bool
    replayed: SampleName | None = None
    """The only input to call with, if a sample of a finished run is judged again."""


def plan(spec: JobSpec) -> list[Stage]:
    """Return the stages of a job after the import, in order."""
    stages = all_stages(spec)
    return stages if spec.replay is None else [replayed(stages, spec)]


def all_stages(spec: JobSpec) -> list[Stage]:
    """Return the stages of a job's mode."""
    limits: Limits = spec.limits
    tests = cases_of(spec.tests, spec.hidden_tests)
    benchmarks = cases_of(spec.benchmarks, spec.hidden_benchmarks)
    test = Stage(name=StageName.TEST, cases=tests, limit_s=limits.test_s, timed=False)
    stages = {
        Mode.TEST: [test],
        Mode.BENCHMARK: [
            Stage(name=StageName.BENCHMARK, cases=benchmarks, limit_s=limits.benchmark_s, timed=True)
        ],
        Mode.PROFILE: [
            Stage(name=StageName.PROFILE, cases=benchmarks, limit_s=limits.benchmark_s, timed=False)
        ],
        Mode.LEADERBOARD: [
            test,
            Stage(name=StageName.RANKED, cases=benchmarks, limit_s=limits.ranked_s, timed=True),
        ],
    }
    return stages[spec.mode]


def captures(spec: JobSpec) -> bool:
    """Return whether the timed calls of a job are to be captured and replayed."""
    timed = spec.mode in (Mode.BENCHMARK, Mode.LEADERBOARD)
    return timed and spec.backend is Backend.CUDA and spec.replay is None


def meets_hidden(spec: JobSpec) -> bool:
    """Return whether a job has hidden cases: they are called in a process of their own."""
    return any(case.hidden for stage in all_stages(spec) for case in stage.cases)


def replayed(stages: list[Stage], spec: JobSpec) -> Stage:
    """Return a stage of one case and one call. Raise ``LookupError`` if the job has no such case."""
    wanted = spec.replay
    assert wanted is not None
    stage = next((each for each in stages if each.name is wanted.stage), None)
    if stage is None or not 0 <= wanted.case < len(stage.cases):
        raise LookupError(f"a {spec.mode.value} job has no case {wanted.case} of stage {wanted.stage.value}")
    return Stage(
        name=stage.name,
        cases=[stage.cases[wanted.case]],
        limit_s=stage.limit_s,
        timed=stage.timed,
        replayed=wanted.sample,
    )


def cases_of(public: list[Parameters], hidden: list[Parameters]) -> list[PlannedCase]:
    """Number the public cases, then the hidden ones."""
    return [
        PlannedCase(index=index, parameters=parameters, hidden=index >= len(public))
        for index, parameters in enumerate([*public, *hidden])
    ]


def ends_stage(stage: Stage, verdict: Verdict) -> bool:
    """Return whether a case with this verdict ends its stage.

    Tests go on, so that one run shows every failure, unless each would fill the memory again.
    After a failure nothing more is measured.
    """
    if verdict is Verdict.ACCEPTED:
        return False
    return stage.name is not StageName.TEST or verdict is Verdict.MEMORY_LIMIT_EXCEEDED


class CaseRun:
    """The calls of one case: the input of each, their times, and when there are enough."""

    def __init__(
        self,
        case: PlannedCase,
        stage: Stage,
        rules: MeasureRules,
        budget_s: float,
        chance: random.Random,
        *,
        settles: bool = False,
    ) -> None:
        self.case = case
        self._stage = stage
        self._rules = rules
        self.budget = Budget(budget_s)
        self._chance = chance
        self._spent_s = self._warming_s = 0.0
        more = stage.name is StageName.RANKED and rules.relative_error > 0
        self._warmups = rules.warmups + (chance.randrange(MORE_WARMUPS) if more else 0) if stage.timed else 0
        self._surprises = self._draw_surprises() if stage.timed and stage.replayed is None else {}
        self._settles = settles and stage.timed and rules.relative_error > 0
        """Whether warm-ups go on until the time of a call stays the same."""
        self._first_ns: list[float] = []
        self._inputs = 0
        self.samples = Samples()
        self.overhead_ns: float | None = None
        self.twins_allowed = rules.twins > 0
        """Whether inputs with one element of each tensor changed are inputs of the task; determined once."""
        self._twinned: set[int] = set()
        """Inputs that already had a twin."""
        self.current: SampleName | None = None
        """The input of the current or last call."""
        self.audit: Audit | None = None
        self.offset_ns = self.noise_share = 0.0
        self.work: Work | None = None
        self.floor_ns: float | None = None
        self.reference_ns: float | None = None
        self.failed_on: SampleName | None = None
        """The input on which the case has failed; no calls follow."""
        self.count = 0
        """Number of calls made, of any kind."""
        self.is_watched = False
        """Whether the witness measures calls of this case: then fewer by the start gun are enough."""
        self.profile: str | None = None
        self.trace: str | None = None

    def next_sample(self) -> tuple[SampleName, bool]:
        """Return the input of the next call, and whether its time may count."""
        if self._stage.replayed is not None:
            return self._stage.replayed, True
        surprise = self._surprise()
        if surprise is not None:
            return surprise, False
        # Cases of slow calls are warm after the first: the others are needed as samples.
        is_warm = self._inputs >= self._warmups or (self.budget.is_slow and self.count >= PLACES)
        name, due = self.fresh(), is_warm
        # The first ranked input has the case's own seed, which is public: checked, never timed.
        return name, due and not (self._stage.name is StageName.RANKED and self._inputs == 1)

    @property
    def _is_over(self) -> bool:
        """Whether the case has used up its time: then only the required calls are still made."""
        return self._stage.timed and self.budget.is_over

    @property
    def lacks_samples(self) -> str:
        """Why a case whose time is up has no score, empty if it may have one."""
        if not self._is_strict:
            return ""
        counted = self.samples.watched_ns if self.is_watched else self.samples.ns
        return self.budget.refusal(self.case.index, len(counted), len(self.samples.discarded_ns))

    @property
    def _fewest(self) -> int:
        """Least number of samples of a case whose time is up."""
        fewest = max(1, min(self._rules.min_samples, self._rules.max_samples))
        return FEWEST_SAMPLES if self._is_strict else min(FEWEST_UNRANKED, fewest)

    @property
    def _is_strict(self) -> bool:
        """Whether the case has no score without 16 samples."""
        ranks = self._stage.name is StageName.RANKED and self._stage.replayed is None
        return ranks and min(self._rules.min_samples, self._rules.max_samples) >= FEWEST_SAMPLES

    def _surprise(self) -> SampleName | None:
        """Return an earlier input or a twin of one if it is time for a surprise, else None."""
        due = next(
            (kinds for at, kinds in sorted(self._surprises.items()) if kinds and at <= self._inputs), None
        )
        if not due and self._is_over and self._inputs > 1:
            due = next((kinds for kinds in self._surprises.values() if kinds), None)
        if due:
            return self._earlier(due.pop())
        late = self._stage.timed and self._inputs > self._warmups and not self._is_over
        if late and self._chance.random() < LATE_SURPRISE:
            return self._earlier(self._chance.random() < 0.5)
        return None

    def fresh(self) -> SampleName:
        """Return an input that has not been used before."""
        self._inputs += 1
        return SampleName(input=self._inputs - 1)

    def add(
        self,
        answer: Any,
        *,
        counts: bool,
        spent_s: float,
        clock_mhz: float | None = None,
        slowed_down: bool = False,
    ) -> None:
        """Count one call and the wall-clock seconds it took, preparation and checks included.

        Its time is discarded where the device was slowed down by heat or its power supply.
        """
        self._spend(answer.wall_ns / 1e9, spent_s)
        self.count += 1
        self.profile, self.trace = answer.profile, answer.trace
        if not self._stage.timed:
            return
        if not counts and not self.samples.ns:
            self._warm(answer.ns, spent_s)
            return
        self._spent_s += spent_s
        if not counts:
            return
        self.samples.add(answer.ns, answer.own_ns, clock_mhz=clock_mhz, slowed_down=slowed_down)

    def _spend(self, called_s: float, spent_s: float) -> None:
        """Count the seconds of a call: the first ones at each place may compile and take as long as they like."""
        may_compile = not self.samples.ns and len(self._first_ns) < PLACES
        if self.samples.ns or self._first_ns:
            self.budget.spend(called_s, spent_s, may_compile=may_compile)

    def _warm(self, ns: float, spent_s: float) -> None:
        """Record a warm-up, and add another while the times still change."""
        self._first_ns.append(ns)
        # The first calls of a case may compile and allocate memory at each place, so their time is not typical.
        self._warming_s += spent_s if len(self._first_ns) > PLACES else 0.0
        if not self._settles or self._inputs < self._warmups or self._warming_s > WARM_UP_S:
            return
        if not timing_settled(self._first_ns):
            self._warmups = self._inputs + 1

    @property
    def finished(self) -> bool:
        """Whether the case needs no more calls."""
        from kernelcup_harness.judge import clock

        if self.failed_on is not None:
            return True
        if self._stage.replayed is not None or self._stage.name is StageName.PROFILE:
            return self.count >= 1
        if not self._stage.timed:
            return self.count >= self._rules.checks
        if any(self._surprises.values()):
            return False
        if self.is_watched:
            return len(self.samples.ns) >= self._checking and self._is_watched_enough
        if self._is_over:
            return len(self.samples.ns) >= self._fewest
        # If every call is slowed down, sampling would never end and run into the wrong verdict: the time limit.
        most = MOST_DISCARDED * max(1, self._rules.min_samples)
        if len(self.samples.discarded_ns) > most and len(self.samples.ns) >= (
            self._fewest if self._is_strict else 1
        ):
            return True
        spent_s = self._spent_s + min(self._warming_s, WARM_UP_S)
        return clock.enough(self.samples.ns, spent_s, self._rules, self.budget.seconds)

    @property
    def _checking(self) -> int:
        """Calls by the start gun that check the witness."""
        return SLOW_CHECKING_SAMPLES if self.budget.is_slow else CHECKING_SAMPLES

    @property
    def watch_is_due(self) -> bool:
        """Whether the next calls are the witness's: at random among the others."""
        if not self.is_watched or self._is_watched_enough or not self.samples.ns:
            return False
        return len(self.samples.ns) >= self._checking or self._chance.random() < WATCH_SHARE

    @property
    def _is_watched_enough(self) -> bool:
        """Whether the witness has seen enough calls: 16, then until their mean is known well or the time is up."""
        from kernelcup_harness.judge import clock

        count = len(self.samples.watched_ns)
        if count < self._rules.min_samples or count >= MOST_WATCHED:
            return count >= MOST_WATCHED
        return self._is_over or clock.enough(
            self.samples.watched_ns, self._spent_s, self._rules, self.budget.seconds
        )

    def add_watched(self, times_ns: Sequence[float], spent_s: float, *, slowed_down: bool) -> None:
        """Count calls that the witness measured. Their times are discarded where the device was slowed down."""
        self.budget.watch(spent_s)
        self._spent_s += spent_s
        self.samples.add_watched(times_ns, slowed_down=slowed_down)

    @property
    def gun_ns(self) -> list[float]:
        """The times by the start gun that count, an empty graph's subtracted."""
        return self.samples.gun_ns(self.offset_ns)

    def timing(self) -> Timing | None:
        """Return the measured times, None if there are none."""
        return self.samples.timing(
            offset_ns=self.offset_ns,
            overhead_ns=self.overhead_ns,
            noise_share=self.noise_share,
            audit=self.audit,
        )

    def _draw_surprises(self) -> dict[int, list[bool]]:
        """Return the calls that are only checked, keyed by the number of inputs before them; True means a twin."""
        cases = max(1, len(self._stage.cases))
        last = self._warmups + max(1, min(self._rules.min_samples, self._rules.max_samples))
        found: dict[int, list[bool]] = {}
        for _ in range(self._rules.repeats):
            found.setdefault(self._chance.randint(1, last), []).append(False)
        # At different places, so that each can be the twin of another input.
        last = max(last, -(-self._rules.twins // cases))
        for place in self._chance.sample(range(1, last + 1), -(-self._rules.twins // cases)):
            found.setdefault(place, []).append(True)
        return found

    def _earlier(self, twin: bool) -> SampleName:
        """Return an earlier input, or a twin of one, preferably of an input without a twin so far."""
        twin = twin and self.twins_allowed
        without = [number for number in range(self._inputs) if number not in self._twinned]
        number = self._chance.choice(without if twin and without else range(self._inputs))
        if twin:
            self._twinned.add(number)
        return SampleName(input=number, twin=twin)
