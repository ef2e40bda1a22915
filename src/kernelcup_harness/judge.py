"""The process that decides. It makes inputs, has the contestant called, checks and times.

Every byte from the contestant is hostile. What the judge finds out goes to the runner frame by
frame, so that nothing found is lost when the run is cut off.
"""

from __future__ import annotations

import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelcup_harness import processes
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.protocol import (
    CaseResult,
    JobSpec,
    Limits,
    MeasureRules,
    Mismatch,
    Mode,
    Parameters,
    StageName,
    Timing,
    Verdict,
    from_json,
    to_json,
)
from kernelcup_harness.seeds import derive_seed

MAX_JOB_FRAME = 256 << 20
MAX_CONTESTANT_FRAME = 16 << 20
HELLO_TIMEOUT_S = 120.0
PROGRESS_INTERVAL_S = 0.2
MAX_MESSAGE = 16 << 10

# What a failure that the contestant admits to means.
FAILURES = {
    "compile": Verdict.COMPILE_ERROR,
    "import": Verdict.RUNTIME_ERROR,
    "exception": Verdict.RUNTIME_ERROR,
    "memory": Verdict.MEMORY_LIMIT_EXCEEDED,
    "output": Verdict.WRONG_ANSWER,
    "too_large": Verdict.OUTPUT_LIMIT_EXCEEDED,
}


def main(runner_fd: str, contestant_fd: str, parent: str) -> None:
    """Judge one job: the runner on one socket, the contestant on the other."""
    processes.die_with_parent(int(parent))
    runner = Channel.from_fd(int(runner_fd), max_bytes=MAX_JOB_FRAME)
    contestant = Channel.from_fd(int(contestant_fd), max_bytes=MAX_CONTESTANT_FRAME, max_fds=0)
    first = runner.receive()
    spec = from_json(JobSpec, first["spec"])
    sys.path.insert(0, os.getcwd())
    if os.environ.get("KERNELCUP_EMULATED") == "1":
        from kernelcup_harness import emulation

        emulation.install()
    Judge(spec, bytes.fromhex(first["secret_seed"]), runner, contestant).judge()


class RunEnds(Exception):
    """A verdict that ends the run; ``lost`` when the contestant is gone and the runner knows why."""

    def __init__(self, verdict: Verdict, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.lost = lost


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCase:
    """A case of a stage, and how it is called."""

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


def plan(spec: JobSpec) -> list[Stage]:
    """Return the stages of a job after the import, in order."""
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


class Judge:
    """One job from the contestant's hello to the last verdict."""

    def __init__(self, spec: JobSpec, secret: bytes, runner: Channel, contestant: Channel) -> None:
        self._spec = spec
        self._secret = secret
        self._runner = runner
        self._channel = contestant
        self._deadline = 0.0
        self._last_progress = 0.0
        # Which samples are warm-ups and how many is nobody's business but the judge's.
        self._chance = random.SystemRandom()

    def judge(self) -> None:
        """Run all stages and report each; the first that is not accepted ends the run."""
        from kernelcup_harness import sysinfo, task_code
        from kernelcup_harness.calls import Caller

        self._runner.send({"event": "environment", "environment": sysinfo.environment(self._spec.backend)})
        style = self._spec.check_style
        try:
            self._task = task_code.TaskCode(self._spec.reference_module, style, Path.cwd())
        except task_code.TaskFault as fault:
            self._stage_failed(StageName.IMPORT, Verdict.INTERNAL_ERROR, str(fault))
            return
        self._fault = task_code.TaskFault
        self._caller = Caller(self._channel, self._task.record_type, self._spec.limits.result_bytes)
        if self._load():
            for stage in plan(self._spec):
                if not self._run_stage(stage):
                    break
        self._runner.send({"event": "end"})

    def _stage_failed(self, name: StageName, verdict: Verdict, message: str) -> None:
        self._begin(name, self._spec.limits.import_s, 0)
        self._end(name, verdict, message)
        self._runner.send({"event": "end"})

    def _load(self) -> bool:
        """Have the submission imported. Report a failure and return False if that does not work."""
        limit_s = self._spec.limits.import_s
        self._begin(StageName.IMPORT, limit_s, 0)
        try:
            self._greet()
            self._channel.send({"type": "load", "file": self._spec.submission_name})
            self._receive(limit_s, "ready")
        except RunEnds as end:
            self._end(StageName.IMPORT, end.verdict, end.message, lost=end.lost)
            return False
        except ChannelClosed:
            self._end(StageName.IMPORT, Verdict.RUNTIME_ERROR, "the submission's process ended", lost=True)
            return False
        self._end(StageName.IMPORT, Verdict.ACCEPTED, "")
        return True

    def _greet(self) -> None:
        """Wait for the contestant's hello. Until then no user code has run, so nothing is its fault."""
        try:
            self._receive(HELLO_TIMEOUT_S, "hello")
        except RunEnds as end:
            text = f"the contestant's process did not start: {end.message}"
            raise RunEnds(Verdict.INTERNAL_ERROR, text) from end

    def _run_stage(self, stage: Stage) -> bool:
        """Run the cases of a stage and return whether all were accepted."""
        self._begin(stage.name, stage.limit_s, len(stage.cases))
        self._deadline = time.monotonic() + stage.limit_s
        self._caller.waited_s = 0.0
        worst: tuple[Verdict, str] = (Verdict.ACCEPTED, "")
        try:
            for case in stage.cases:
                result = self._run_case(stage, case)
                self._runner.send({"event": "case", "stage": stage.name.value, "case": to_json(result)})
                if result.verdict is not Verdict.ACCEPTED and worst[0] is Verdict.ACCEPTED:
                    worst = (result.verdict, result.message)
                if ends_stage(stage, result.verdict):
                    break
        except RunEnds as end:
            self._end(stage.name, end.verdict, end.message, lost=end.lost)
            return False
        self._end(stage.name, *worst)
        return worst[0] is Verdict.ACCEPTED

    def _run_case(self, stage: Stage, case: PlannedCase) -> CaseResult:
        from kernelcup_harness.calls import CallFailed
        from kernelcup_harness.wire import CannotCarry

        samples = Samples(self._spec.rules, stage, self._budget(stage, case), self._chance)
        try:
            while not samples.finished:
                wrong = self._run_sample(stage, case, samples)
                if wrong is not None:
                    return self._result(case, samples, Verdict.WRONG_ANSWER, *wrong)
                self._progress(stage, case, samples)
        except CallFailed as failure:
            return self._result(case, samples, FAILURES[failure.kind], failure.text, None)
        except self._fault as fault:
            raise RunEnds(Verdict.INTERNAL_ERROR, str(fault)) from fault
        except CannotCarry as error:
            text = f"the task's {error}; see the task format for what can"
            raise RunEnds(Verdict.INTERNAL_ERROR, text) from error
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise self._ending(error, stage) from error
        return self._result(case, samples, Verdict.ACCEPTED, "", None)

    def _run_sample(
        self, stage: Stage, case: PlannedCase, samples: Samples
    ) -> tuple[str, Mismatch | None] | None:
        """Call the contestant once on a fresh input and check what it returned."""
        seed = self._seed(stage, case, samples.count)
        data = self._task.generate(case.parameters, seed)
        if samples.count == 0 and self._task.has_reference:
            # The reference may overwrite its input, so it gets one of its own.
            expected = self._task.expected(self._task.generate(case.parameters, seed))
            self._caller.expect(expected, in_place=self._task.in_place)
        profiled = stage.name is StageName.PROFILE
        answer = self._caller.call(data, timeout_s=self._remaining(), profile=profiled)
        samples.add(answer)
        if profiled:
            return None
        return self._fault_of(case, seed, data, answer.output)

    def _fault_of(
        self, case: PlannedCase, seed: int, data: Any, output: Any
    ) -> tuple[str, Mismatch | None] | None:
        from kernelcup_harness import comparing

        expected = self._caller.expected
        if expected is not None:
            fault = comparing.structure_fault(expected, output)
            # Shapes may depend on the data: only this sample's own reference counts against it.
            if fault and (fault := comparing.structure_fault(self._expected(case, seed), output)):
                return fault, None
        text = self._checked(case, seed, data, output)
        if not text:
            return None
        if expected is None:
            return text, None
        return text, comparing.first_mismatch(self._expected(case, seed), output, self._task.tolerance)

    def _checked(self, case: PlannedCase, seed: int, data: Any, output: Any) -> str:
        """Return the checker's fault. One that fails on this output only has found the output wrong."""
        try:
            return self._task.check(data, output)
        except self._fault as fault:
            if not self._task.has_reference:
                raise
            right = self._expected(case, seed)
            if self._task.check(self._task.generate(case.parameters, seed), right):
                raise
            return f"the checker cannot work with this output: {fault}"

    def _expected(self, case: PlannedCase, seed: int) -> Any:
        return self._task.expected(self._task.generate(case.parameters, seed))

    def _seed(self, stage: Stage, case: PlannedCase, sample: int) -> int:
        """Return the seed of one sample; only the ranked stage draws from the secret."""
        if stage.name is StageName.RANKED:
            return derive_seed(self._secret, "ranked", case.index, sample)
        given = case.parameters.get("seed")
        if sample == 0 and isinstance(given, int):
            return given
        return derive_seed(b"public", stage.name.value, case.index, given, sample)

    def _result(
        self, case: PlannedCase, samples: Samples, verdict: Verdict, message: str, mismatch: Mismatch | None
    ) -> CaseResult:
        return CaseResult(
            index=case.index,
            parameters=case.parameters,
            hidden=case.hidden,
            verdict=verdict,
            message=message[:MAX_MESSAGE],
            mismatch=mismatch,
            timing=samples.timing(),
            checks=samples.count,
            profile=samples.profile,
            trace_gz64=samples.trace,
        )

    def _budget(self, stage: Stage, case: PlannedCase) -> float:
        """Return the seconds that a case may be sampled: its share of what the stage has left."""
        left = max(1, len(stage.cases) - case.index)
        return min(self._spec.rules.case_budget_s, 0.8 * self._remaining() / left)

    def _remaining(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _ending(self, error: Exception, stage: Stage) -> RunEnds:
        if isinstance(error, ChannelTimeout):
            return self._time_is_up(stage)
        if isinstance(error, BrokenProtocol):
            return RunEnds(Verdict.REJECTED, f"the submission wrote to the harness's channel: {error}")
        return RunEnds(Verdict.RUNTIME_ERROR, "the submission's process ended", lost=True)

    def _time_is_up(self, stage: Stage) -> RunEnds:
        """Blame whoever used the time: a slow generator or reference is not the submission's fault."""
        text = f"the {stage.name.value} stage took longer than {stage.limit_s:g} s"
        used = self._caller.waited_s
        if used >= stage.limit_s / 2:
            return RunEnds(Verdict.TIME_LIMIT_EXCEEDED, text)
        whose = (
            f"{text}, but the submission ran for only {used:.1f} s of them: the task's own code is too slow"
        )
        return RunEnds(Verdict.INTERNAL_ERROR, whose)

    def _receive(self, timeout_s: float, expected: str) -> None:
        """Wait for a frame of one type while the submission is being imported."""
        try:
            frame = self._channel.receive(timeout_s)
        except ChannelTimeout:
            text = f"importing the submission took longer than {timeout_s:g} s"
            raise RunEnds(Verdict.TIME_LIMIT_EXCEEDED, text) from None
        except BrokenProtocol as error:
            raise RunEnds(
                Verdict.REJECTED, f"the submission wrote to the harness's channel: {error}"
            ) from None
        except ChannelClosed:
            raise RunEnds(Verdict.RUNTIME_ERROR, "the submission's process ended", lost=True) from None
        if frame.get("type") == "fail":
            verdict = FAILURES.get(str(frame.get("kind")), Verdict.REJECTED)
            raise RunEnds(verdict, str(frame.get("text"))[:16384])
        if frame.get("type") != expected or frame.get("id") is not None:
            raise RunEnds(Verdict.REJECTED, "the submission answered out of turn")

    def _begin(self, name: StageName, limit_s: float, cases: int) -> None:
        self._runner.send({"event": "stage", "name": name.value, "limit_s": limit_s, "cases": cases})

    def _end(self, name: StageName, verdict: Verdict, message: str, *, lost: bool = False) -> None:
        self._runner.send(
            {
                "event": "stage_end",
                "name": name.value,
                "verdict": verdict.value,
                "message": message[:MAX_MESSAGE],
                "lost": lost,
            }
        )

    def _progress(self, stage: Stage, case: PlannedCase, samples: Samples) -> None:
        now = time.monotonic()
        if now - self._last_progress < PROGRESS_INTERVAL_S:
            return
        self._last_progress = now
        self._runner.send(
            {"event": "sample", "stage": stage.name.value, "case": case.index, "samples": samples.count}
        )


class Samples:
    """The calls of one case: which count as warm-up, what they took, and when it is enough."""

    def __init__(
        self, rules: MeasureRules, stage: Stage, budget_s: float, chance: random.SystemRandom
    ) -> None:
        self._rules = rules
        self._stage = stage
        self._budget_s = budget_s
        self._began = time.monotonic()
        extra = chance.randrange(3) if stage.name is StageName.RANKED and rules.relative_error else 0
        self._warmups = rules.warmups + extra if stage.timed else 0
        self._ns: list[float] = []
        self._wall_ns: list[float] = []
        self.count = 0
        self.profile: str | None = None
        self.trace: str | None = None

    def add(self, answer: Any) -> None:
        """Count one call."""
        self.count += 1
        self.profile, self.trace = answer.profile, answer.trace
        if self._stage.timed and self.count > self._warmups:
            self._ns.append(answer.ns)
            self._wall_ns.append(answer.wall_ns)

    @property
    def finished(self) -> bool:
        """Whether the case needs no more calls."""
        from kernelcup_harness import timing

        if self._stage.name is StageName.PROFILE:
            return self.count >= 1
        if not self._stage.timed:
            return self.count >= self._rules.checks
        elapsed = time.monotonic() - self._began
        return timing.enough(self._ns, elapsed, self._rules, self._budget_s)

    def timing(self) -> Timing | None:
        """Return what was measured, None if nothing was."""
        return Timing(samples_ns=self._ns, wall_ns=self._wall_ns) if self._ns else None
