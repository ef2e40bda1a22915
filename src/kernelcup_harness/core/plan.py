"""The stages of a job, their cases, and the calls of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelcup_harness.protocol.base import Parameters
from kernelcup_harness.protocol.enums import Backend, Mode, StageName, Verdict
from kernelcup_harness.protocol.results import Timing
from kernelcup_harness.protocol.spec import JobSpec, Limits, ProfileWay, SampleName

SUBMISSION, HIDDEN = "submission", "hidden"
"""Contestants with the submission: for public cases, and for hidden ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCase:
    """A case of a stage."""

    index: int
    parameters: Parameters
    hidden: bool
    weight: float = 1.0

    @property
    def role(self) -> str:
        """The contestant that it is called in."""
        return HIDDEN if self.hidden else SUBMISSION


class CaseCalls:
    """The calls of one case so far, whose answers are checked. A clock also keeps their times."""

    def __init__(self, case: PlannedCase) -> None:
        self.case = case
        self.current: SampleName | None = None
        """The input of the current or last call."""
        self.failed_on: SampleName | None = None
        """The input on which the case has failed."""
        self.has_failed = False
        """Whether no calls follow."""
        self.count = 0
        """Number of calls made, of any kind."""
        self.profile: str | None = None
        self.trace: str | None = None

    @property
    def lacks_samples(self) -> str:
        """Why a case whose time is up has no score, empty if it may have one."""
        return ""

    def timing(self) -> Timing | None:
        """Return the measured times, None if there are none."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage of the run, or its part of public or of hidden cases: these are called one after the other."""

    name: StageName
    cases: list[PlannedCase]
    limit_s: float
    timed: bool
    partial: bool = False
    """Whether the other cases go on after one that has failed."""
    others: int = 0
    """The number of cases of its other part."""
    replayed: SampleName | None = None
    """The only input to call with, if a sample of a finished run is judged again."""

    @property
    def total(self) -> int:
        """The number of cases of both parts."""
        return len(self.cases) + self.others

    @property
    def is_hidden(self) -> bool:
        """Whether its cases are hidden."""
        return any(case.hidden for case in self.cases)

    @property
    def role(self) -> str:
        """The contestant that its cases are called in."""
        return HIDDEN if self.is_hidden else SUBMISSION

    @property
    def is_last(self) -> bool:
        """Whether no part of it follows."""
        return self.is_hidden or not self.others


def plan(spec: JobSpec) -> list[Stage]:
    """Return the stages of a job after the import, in order: those of public cases, then those of hidden ones."""
    stages = all_stages(spec)
    if spec.binary is not None:
        # Its code has passed the tests; only its timed calls are kept.
        stages = [stage for stage in stages if stage.timed]
    if spec.replay is not None:
        return [replayed(stages, spec)]
    public, hidden = ([part(stage, hidden=hidden) for stage in stages] for hidden in (False, True))
    return [*public, *(stage for stage in hidden if stage.cases)]


def part(stage: Stage, *, hidden: bool) -> Stage:
    """Return a stage with its public or its hidden cases only."""
    cases = [case for case in stage.cases if case.hidden is hidden]
    return replace(stage, cases=cases, others=len(stage.cases) - len(cases))


def all_stages(spec: JobSpec) -> list[Stage]:
    """Return the stages of a job's mode, each with all its cases."""
    limits: Limits = spec.limits
    tests = cases_of(spec.tests, spec.hidden_tests)
    benchmarks = cases_of(spec.benchmarks, spec.hidden_benchmarks, spec.weights)
    test = Stage(name=StageName.TEST, cases=tests, limit_s=limits.test_s, timed=False)
    stages = {
        Mode.TEST: [test],
        Mode.BENCHMARK: [
            Stage(
                name=StageName.BENCHMARK,
                cases=benchmarks,
                limit_s=limits.benchmark_s,
                timed=True,
                partial=spec.partial,
            )
        ],
        Mode.PROFILE: [
            Stage(name=StageName.PROFILE, cases=profiled(spec), limit_s=limits.profile_s, timed=False)
        ],
        Mode.LEADERBOARD: [
            test,
            Stage(
                name=StageName.RANKED,
                cases=benchmarks,
                limit_s=limits.ranked_s,
                timed=True,
                partial=spec.partial,
            ),
        ],
    }
    return stages[spec.mode]


def profiled(spec: JobSpec) -> list[PlannedCase]:
    """Return the benchmark to profile: the last one, unless another was asked for. Hidden ones never are."""
    cases = cases_of(spec.benchmarks, [])
    wanted = spec.profile.benchmark
    return cases[-1:] if wanted is None else cases[wanted : wanted + 1]


def captures(spec: JobSpec) -> bool:
    """Return whether the calls of a job are to be captured and replayed."""
    timed = spec.mode in (Mode.BENCHMARK, Mode.LEADERBOARD)
    replays = timed or (spec.mode is Mode.PROFILE and spec.profile.way is ProfileWay.REPLAYED)
    return replays and spec.backend is Backend.CUDA and spec.replay is None and not spec.multi_gpu


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
    return replace(stage, cases=[stage.cases[wanted.case]], replayed=wanted.sample)


def cases_of(
    public: list[Parameters], hidden: list[Parameters], weights: Sequence[float] = ()
) -> list[PlannedCase]:
    """Number the public cases, then the hidden ones."""
    every = [*public, *hidden]
    return [
        PlannedCase(index=index, parameters=parameters, hidden=index >= len(public), weight=weight)
        for index, (parameters, weight) in enumerate(zip(every, weights or [1.0] * len(every), strict=False))
    ]


def ends_stage(stage: Stage, verdict: Verdict) -> bool:
    """Return whether a case with this verdict ends its stage.

    Tests go on, so that one run shows every failure, unless each would fill the memory again.
    After a failure nothing more is measured, unless the task gives points for each case.
    """
    if verdict is Verdict.ACCEPTED or stage.partial:
        return False
    return stage.name is not StageName.TEST or verdict is Verdict.MEMORY_LIMIT_EXCEEDED
