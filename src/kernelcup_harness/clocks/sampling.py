"""The calls of one timed case: an unpredictable order, and when there are enough.

The contestant cannot distinguish warm-ups, timed calls and calls that are only checked, nor a new
input from an earlier one. All randomness comes from the job's secret, so that a run can be
repeated once the secret is revealed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernelcup_harness.clocks.budget import WARM_UP_S, Budget, budgets_s
from kernelcup_harness.clocks.samples import Samples, enough, is_steady, timing_settled
from kernelcup_harness.core.answer import Answer
from kernelcup_harness.core.call import PLACES
from kernelcup_harness.core.judge import Beside
from kernelcup_harness.core.plan import CaseCalls, PlannedCase, Stage
from kernelcup_harness.protocol import (
    FEWEST_SAMPLES,
    Audit,
    Finding,
    JobSpec,
    MeasureRules,
    SampleName,
    StageName,
    Timing,
)

MORE_WARMUPS = 3
"""A ranked case has fewer further warm-ups than this, drawn at random."""
LATE_SURPRISE = 0.02
"""Probability that a late call of a case uses an earlier input or a near-twin of one."""
MOST_DISCARDED = 4
SOON = 3
"""A case whose inputs have more twins than planned gets the next one before this many inputs."""
FEWEST_UNRANKED = 2
"""Least number of samples of any other timed case: with fewer, their precision is unknown."""
CHECKING_SAMPLES, SLOW_CHECKING_SAMPLES, MOST_CHECKING = 8, 4, 24
"""Calls by the start gun that check the witness, those of cases that have little time, and those where they scatter."""
MOST_WATCHED = 32
"""Calls that the witness measures at most; the interval is then as wide as it is."""
WATCH_SHARE = 0.25
"""Probability that the next calls of a case are the witness's."""


@dataclass(frozen=True, kw_only=True)
class CasePlan:
    """How a case is to be timed, drawn before its first call."""

    case: PlannedCase
    stage: Stage
    rules: MeasureRules
    budget_s: float
    chance: random.Random
    """Decides which calls are timed and in which order: unpredictable until the secret is revealed."""
    settles: bool = False
    """Whether warm-ups go on until the time of a call stays the same."""
    overhead_ns: float | None = None
    """Time of a call that computes nothing; None if it is not known."""
    noise_share: float = 0.0
    """Of the device, from its calibration."""
    warmups: int = field(init=False)
    """Least number of inputs before the first one whose time counts."""
    surprises: Mapping[int, Sequence[bool]] = field(init=False)
    """The calls that are only checked, keyed by the number of inputs before them; True means a twin."""

    def __post_init__(self) -> None:
        more = self.is_ranked and self.rules.relative_error > 0
        warmups = self.rules.warmups + (self.chance.randrange(MORE_WARMUPS) if more else 0)
        object.__setattr__(self, "warmups", warmups)
        object.__setattr__(self, "surprises", self._draw_surprises() if self.stage.replayed is None else {})

    @property
    def is_ranked(self) -> bool:
        """Whether the time of the case ranks."""
        return self.stage.name is StageName.RANKED

    def _draw_surprises(self) -> dict[int, list[bool]]:
        cases, rules, chance = max(1, self.stage.total), self.rules, self.chance
        last = self.warmups + max(1, min(rules.min_samples, rules.max_samples))
        surprises: dict[int, list[bool]] = {}
        for _ in range(rules.repeats):
            surprises.setdefault(chance.randint(1, last), []).append(False)
        # At different places, so that each can be the twin of another input.
        last = max(last, -(-rules.twins // cases))
        for place in chance.sample(range(1, last + 1), -(-rules.twins // cases)):
            surprises.setdefault(place, []).append(True)
        return surprises


@dataclass(frozen=True, kw_only=True, slots=True)
class Plans:
    """Makes the plans of a job's timed cases."""

    spec: JobSpec
    reference_s: Sequence[float]
    """Seconds of one call of the reference, case by case; may be shorter."""
    chance: random.Random
    gpu: bool

    def cases(
        self, stage: Stage, overhead_ns: Callable[[PlannedCase], float | None] = lambda _: None
    ) -> list[TimedCase]:
        """Return the cases of a stage, with no call made yet."""
        spec, known = self.spec, [] if stage.replayed is not None else self.reference_s
        budgets = budgets_s(spec.rules, stage.total, known, stage.limit_s)[: len(stage.cases)]
        return [
            TimedCase(
                CasePlan(
                    case=case,
                    stage=stage,
                    rules=spec.rules,
                    budget_s=budget_s,
                    chance=self.chance,
                    settles=self.gpu and stage.name is StageName.RANKED,
                    overhead_ns=overhead_ns(case),
                    noise_share=spec.device.noise_share if spec.device is not None else 0.0,
                )
            )
            for case, budget_s in zip(stage.cases, budgets, strict=True)
        ]


class TimedCase(CaseCalls):
    """The calls of a case by its plan: the input of each, their times, and when there are enough."""

    def __init__(self, plan: CasePlan) -> None:
        super().__init__(plan.case)
        self._plan = plan
        self._rules = plan.rules
        self._chance = plan.chance
        self.budget = Budget(plan.budget_s)
        self.samples = Samples()
        self.is_watched = False
        """Whether the witness measures calls of this case: then fewer by the start gun are enough."""
        self._warmups = plan.warmups
        self._settles = plan.settles and plan.rules.relative_error > 0
        self._surprises = {place: list(kinds) for place, kinds in plan.surprises.items()}
        self._twins_allowed = plan.rules.twins > 0
        self._twinned: set[int] = set()
        """Inputs that already had a twin."""
        self._twins = 0
        self._inputs = 0
        self._first_ns: list[float] = []
        self._spent_s = self._warming_s = 0.0

    def use(self, sample: SampleName, twins: Callable[[], Sequence[bool]]) -> SampleName:
        """Note the input of the next call, and return it: the plain one where near-twins are no inputs of the task.

        ``twins`` are those of an input: each comes in turn, and all in each case.
        """
        count = len(twins()) if sample.twin else 0
        if sample.twin and not count:
            self._twins_allowed, sample = False, SampleName(input=sample.input)
        elif sample.twin and self._plan.stage.replayed is None:
            sample = replace(sample, part=self._twins % count)
            self._twins += 1
            if self._twins < count and not any(True in kinds for kinds in self._surprises.values()):
                self._surprises.setdefault(self._inputs + self._chance.randrange(SOON), []).append(True)
        self.current = sample
        return sample

    def next_sample(self) -> tuple[SampleName, bool]:
        """Return the input of the next call, and whether its time may count."""
        if self._plan.stage.replayed is not None:
            return self._plan.stage.replayed, True
        surprise = self._surprise()
        if surprise is not None:
            return surprise, False
        # Cases of slow calls are warm after the first: the others are needed as samples.
        is_warm = self._inputs >= self._warmups or (self.budget.is_slow and self.count >= PLACES)
        name, due = self.fresh(), is_warm
        # The first ranked input has the case's own seed, which is public: checked, never timed.
        return name, due and not (self._plan.is_ranked and self._inputs == 1)

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
        ranks = self._plan.is_ranked and self._plan.stage.replayed is None
        return ranks and min(self._rules.min_samples, self._rules.max_samples) >= FEWEST_SAMPLES

    def _surprise(self) -> SampleName | None:
        """Return an earlier input or a twin of one if it is time for a surprise, else None."""
        due = next(
            (kinds for at, kinds in sorted(self._surprises.items()) if kinds and at <= self._inputs), None
        )
        if not due and self.budget.is_over and self._inputs > 1:
            due = next((kinds for kinds in self._surprises.values() if kinds), None)
        if due:
            return self._earlier(due.pop())
        late = self._inputs > self._warmups and not self.budget.is_over
        if late and self._chance.random() < LATE_SURPRISE:
            return self._earlier(self._chance.random() < 0.5)
        return None

    def fresh(self) -> SampleName:
        """Return an input that has not been used before."""
        self._inputs += 1
        return SampleName(input=self._inputs - 1)

    def add(
        self,
        answer: Answer,
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
        if self.has_failed:
            return True
        if self._plan.stage.replayed is not None:
            return self.count >= 1
        if any(self._surprises.values()):
            return False
        if self.is_watched:
            return len(self.samples.ns) >= self._checking and self._is_watched_enough
        if self.budget.is_over:
            return len(self.samples.ns) >= self._fewest
        # If every call is slowed down, sampling would never end and run into the wrong verdict: the time limit.
        most = MOST_DISCARDED * max(1, self._rules.min_samples)
        if len(self.samples.discarded_ns) > most and len(self.samples.ns) >= (
            self._fewest if self._is_strict else 1
        ):
            return True
        spent_s = self._spent_s + min(self._warming_s, WARM_UP_S)
        return enough(self.samples.ns, spent_s, self._rules, self.budget.seconds)

    @property
    def _checking(self) -> int:
        """Calls by the start gun that check the witness: more where they scatter."""
        if self.budget.is_slow:
            return SLOW_CHECKING_SAMPLES
        few = self.budget.is_over or len(self.samples.ns) < CHECKING_SAMPLES or is_steady(self.samples.ns)
        return CHECKING_SAMPLES if few else MOST_CHECKING

    @property
    def watch_is_due(self) -> bool:
        """Whether the next calls are the witness's: at random among the others."""
        if not self.is_watched or self._is_watched_enough or not self.samples.ns:
            return False
        return len(self.samples.ns) >= self._checking or self._chance.random() < WATCH_SHARE

    @property
    def _is_watched_enough(self) -> bool:
        """Whether the witness has seen enough calls: 16, then until their mean is known well or the time is up."""
        count = len(self.samples.watched_ns)
        if count < self._rules.min_samples or count >= MOST_WATCHED:
            return count >= MOST_WATCHED
        return self.budget.is_over or enough(
            self.samples.watched_ns, self._spent_s, self._rules, self.budget.seconds
        )

    def add_watched(self, times_ns: Sequence[float], spent_s: float, *, slowed_down: bool) -> None:
        """Count calls that the witness measured. Their times are discarded where the device was slowed down."""
        self.budget.watch(spent_s)
        self._spent_s += spent_s
        self.samples.add_watched(times_ns, slowed_down=slowed_down)

    def timing(self, audit: Audit | None = None, *, offset_ns: float = 0.0) -> Timing | None:
        """Return the measured times, None if there are none.

        Args:
            audit: The ranked time, if it is known.
            offset_ns: The clock's own share of each time.
        """
        return self.samples.timing(
            offset_ns=offset_ns,
            overhead_ns=self._plan.overhead_ns,
            noise_share=self._plan.noise_share,
            audit=audit,
        )

    def _earlier(self, twin: bool) -> SampleName:
        """Return an earlier input, or a twin of one, preferably of an input without a twin so far."""
        twin = twin and self._twins_allowed
        without = [number for number in range(self._inputs) if number not in self._twinned]
        number = self._chance.choice(without if twin and without else range(self._inputs))
        if twin:
            self._twinned.add(number)
        return SampleName(input=number, twin=twin)


LONGEST_TURN = 4
"""Most calls of one case in a row while other cases wait."""


class Doubt(Protocol):
    """Doubts the times of a job. Nothing that it returns accepts an answer or shortens a time."""

    def look(self) -> tuple[float | None, bool]:
        """Return the device's clock in MHz, and whether it is slowed down."""

    def begin(self) -> None:
        """Note the state of the device before ordinary calls are timed."""

    def findings(self, case: PlannedCase, timing: Timing) -> list[Finding]:
        """Return what speaks against a ranked time."""

    def beside(self, stage: Stage, timed: Sequence[tuple[PlannedCase, Timing]]) -> list[Beside]:
        """Return what is found beside each case when all are timed. Raise ``TaskFault``."""


def turns(cases: Sequence[TimedCase], chance: random.Random) -> Iterator[TimedCase]:
    """Yield the next case to call until all are finished, in random order."""
    waiting = list(cases)
    while waiting:
        case, length = chance.choice(waiting), chance.randint(1, LONGEST_TURN)
        while not case.finished and length != 0:
            yield case
            length -= 1
        waiting = [each for each in waiting if not each.finished]
