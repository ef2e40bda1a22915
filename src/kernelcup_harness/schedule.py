"""What is called when: the stages of a job, and an order of calls that nobody can foresee.

The contestant cannot tell a warm-up from a timed call or from one that is only checked, nor a new
input from one that was there before. All chance comes from the job's secret, so that a run can be
repeated once the secret is revealed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernelcup_harness.protocol import (
    JobSpec,
    Limits,
    MeasureRules,
    Mode,
    Parameters,
    SampleName,
    StageName,
    Timing,
    Verdict,
)

MORE_WARMUPS = 3
"""A ranked case has up to so many further warm-ups, less one."""
LATE_SURPRISE = 0.02
"""How likely a call late in a case is made with an input that was there before, or nearly was."""
LONGEST_TURN = 4
"""Calls of one case in a row, at most, while others wait."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCase:
    """A case of a stage."""

    index: int
    parameters: Parameters
    hidden: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage of the run."""

    name: StageName
    cases: list[PlannedCase]
    limit_s: float
    timed: bool
    replayed: SampleName | None = None
    """The one input to call with, where a sample of a finished run is judged again."""


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
    """Tell whether the cases after one with this verdict are still worth trying.

    All tests are, so that one run shows all that fails, unless each would fill the memory again.
    Nothing is measured once something is wrong.
    """
    if verdict is Verdict.ACCEPTED:
        return False
    return stage.name is not StageName.TEST or verdict is Verdict.MEMORY_LIMIT_EXCEEDED


class CaseRun:
    """The calls of one case: with which input each is made, what they took, and when it is enough."""

    def __init__(
        self, case: PlannedCase, stage: Stage, rules: MeasureRules, budget_s: float, chance: random.Random
    ) -> None:
        self.case = case
        self._stage = stage
        self._rules = rules
        self._budget_s = budget_s
        self._chance = chance
        self._spent_s = 0.0
        more = stage.name is StageName.RANKED and rules.relative_error > 0
        self._warmups = rules.warmups + (chance.randrange(MORE_WARMUPS) if more else 0) if stage.timed else 0
        self._surprises = self._draw_surprises() if stage.timed and stage.replayed is None else {}
        self._inputs = 0
        self._ns: list[float] = []
        self._wall_ns: list[float] = []
        self.twins_allowed = rules.twins > 0
        """Whether inputs with one element changed are inputs of the task at all; found out once."""
        self.failed_on: SampleName | None = None
        """The input on which the case has failed; no more calls then."""
        self.count = 0
        """Calls made, of any kind."""
        self.profile: str | None = None
        self.trace: str | None = None

    def next_sample(self) -> tuple[SampleName, bool]:
        """Return the input of the next call, and whether its time may count."""
        if self._stage.replayed is not None:
            return self._stage.replayed, True
        due = self._surprises.get(self._inputs)
        if due:
            return SampleName(
                input=self._chance.randrange(self._inputs), twin=self._is_twin(due.pop())
            ), False
        if self._stage.timed and self._inputs > self._warmups and self._chance.random() < LATE_SURPRISE:
            twin = self._is_twin(self._chance.random() < 0.5)
            return SampleName(input=self._chance.randrange(self._inputs), twin=twin), False
        self._inputs += 1
        return SampleName(input=self._inputs - 1), self._inputs > self._warmups

    def add(self, answer: Any, *, counts: bool, spent_s: float) -> None:
        """Count one call and the wall-clock seconds that all about it took."""
        self.count += 1
        self._spent_s += spent_s
        self.profile, self.trace = answer.profile, answer.trace
        if self._stage.timed and counts:
            self._ns.append(answer.ns)
            self._wall_ns.append(answer.wall_ns)

    @property
    def finished(self) -> bool:
        """Whether the case needs no more calls."""
        from kernelcup_harness import timing

        if self.failed_on is not None:
            return True
        if self._stage.replayed is not None or self._stage.name is StageName.PROFILE:
            return self.count >= 1
        if not self._stage.timed:
            return self.count >= self._rules.checks
        if any(self._surprises.get(place) for place in range(self._inputs + 1)):
            return False
        return timing.enough(self._ns, self._spent_s, self._rules, self._budget_s)

    def timing(self) -> Timing | None:
        """Return what was measured, None if nothing was."""
        return Timing(samples_ns=self._ns, wall_ns=self._wall_ns) if self._ns else None

    def _draw_surprises(self) -> dict[int, list[bool]]:
        """Return, by the count of inputs before them, the calls that are only checked; True for twins."""
        kinds = [False] * self._rules.repeats + [True] * self._rules.twins
        last = self._warmups + max(1, min(self._rules.min_samples, self._rules.max_samples))
        found: dict[int, list[bool]] = {}
        for kind in kinds:
            found.setdefault(self._chance.randint(1, last), []).append(kind)
        return found

    def _is_twin(self, wished: bool) -> bool:
        return wished and self.twins_allowed


def turns(runs: Sequence[CaseRun], *, shuffled: bool, chance: random.Random) -> Iterator[CaseRun]:
    """Yield whose turn it is until all are finished: case after case, or in an order drawn at random."""
    waiting = list(runs)
    while waiting:
        run = chance.choice(waiting) if shuffled else waiting[0]
        length = chance.randint(1, LONGEST_TURN) if shuffled else None
        while not run.finished and length != 0:
            yield run
            length = None if length is None else length - 1
        waiting = [each for each in waiting if not each.finished]
