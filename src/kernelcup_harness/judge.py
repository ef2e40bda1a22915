"""The process that decides. It makes inputs, has the contestant called, checks and times.

Every byte from the contestant is hostile. What the judge finds out goes to the runner frame by
frame, so that nothing found is lost when the run is cut off.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kernelcup_harness import processes
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    JobSpec,
    Mismatch,
    Reason,
    SampleName,
    StageName,
    Verdict,
    from_json,
    to_json,
)
from kernelcup_harness.schedule import CaseRun, Stage, ends_stage, plan, turns
from kernelcup_harness.seeds import derive_seed

if TYPE_CHECKING:
    from kernelcup_harness.checks import Fault

MAX_JOB_FRAME = 256 << 20
MAX_CONTESTANT_FRAME = 16 << 20
HELLO_TIMEOUT_S = 120.0
PROGRESS_INTERVAL_S = 0.2
MAX_MESSAGE = 16 << 10

# What a failure that the contestant admits to means.
FAILURES = {
    "compile": (Verdict.COMPILE_ERROR, Reason.COMPILE),
    "import": (Verdict.RUNTIME_ERROR, Reason.IMPORT),
    "exception": (Verdict.RUNTIME_ERROR, Reason.EXCEPTION),
    "memory": (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.DEVICE_MEMORY),
    "host_memory": (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.HOST_MEMORY),
    "output": (Verdict.WRONG_ANSWER, Reason.FORM),
    "too_large": (Verdict.OUTPUT_LIMIT_EXCEEDED, Reason.TOO_LARGE),
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

    def __init__(self, verdict: Verdict, reason: Reason, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.reason = reason
        self.message = message
        self.lost = lost


class Judge:
    """One job from the contestant's hello to the last verdict."""

    def __init__(self, spec: JobSpec, secret: bytes, runner: Channel, contestant: Channel) -> None:
        self._spec = spec
        self._secret = secret
        self._runner = runner
        self._channel = contestant
        self._deadline = 0.0
        self._last_progress = 0.0
        # Which calls are timed and whose turn it is: nobody's business until the secret is revealed.
        self._chance = random.Random(derive_seed(secret, "order"))

    def judge(self) -> None:
        """Run all stages and report each; the first that is not accepted ends the run."""
        from kernelcup_harness import device_memory, sysinfo, task_code
        from kernelcup_harness.calls import Caller
        from kernelcup_harness.checks import Checks

        self._runner.send({"event": "environment", "environment": sysinfo.environment(self._spec.backend)})
        self._reservation = device_memory.reserve(self._spec.backend is Backend.CUDA)
        try:
            task = task_code.TaskCode(self._spec.reference_module, self._spec.check_style, Path.cwd())
            stages = plan(self._spec)
        except (task_code.TaskFault, LookupError) as fault:
            self._stage_failed(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.TASK, str(fault))
            return
        self._checks = Checks(task, self._secret, aliasing=self._spec.aliasing)
        self._caller = Caller(self._channel, task.record_type, self._spec.limits.result_bytes)
        if self._load():
            for stage in stages:
                if not self._run_stage(stage):
                    break
        self._runner.send({"event": "end"})

    def _stage_failed(self, name: StageName, verdict: Verdict, reason: Reason, message: str) -> None:
        self._begin(name, self._spec.limits.import_s, 0)
        self._end(name, verdict, reason, message)
        self._runner.send({"event": "end"})

    def _load(self) -> bool:
        """Have the submission imported. Report a failure and return False if that does not work."""
        limit_s = self._spec.limits.import_s
        self._begin(StageName.IMPORT, limit_s, 0)
        try:
            self._greet()
            if self._reservation is not None:
                self._reservation.mark()
            self._channel.send({"type": "load", "file": self._spec.submission_name})
            self._receive(limit_s, "ready")
        except RunEnds as end:
            self._end(StageName.IMPORT, end.verdict, end.reason, end.message, lost=end.lost)
            return False
        except ChannelClosed:
            text = "the submission's process ended"
            self._end(StageName.IMPORT, Verdict.RUNTIME_ERROR, Reason.EXITED, text, lost=True)
            return False
        self._end(StageName.IMPORT, Verdict.ACCEPTED, Reason.NONE, "")
        return True

    def _greet(self) -> None:
        """Wait for the contestant's hello. Until then no user code has run, so nothing is its fault."""
        try:
            self._receive(HELLO_TIMEOUT_S, "hello")
        except RunEnds as end:
            text = f"the contestant's process did not start: {end.message}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text) from end

    def _run_stage(self, stage: Stage) -> bool:
        """Run the cases of a stage and return whether all were accepted."""
        self._begin(stage.name, stage.limit_s, len(stage.cases))
        self._deadline = time.monotonic() + stage.limit_s
        self._caller.waited_s = 0.0
        worst: CaseResult | None = None
        try:
            for result in self._results(stage):
                self._runner.send({"event": "case", "stage": stage.name.value, "case": to_json(result)})
                if result.verdict is not Verdict.ACCEPTED and worst is None:
                    worst = result
                if ends_stage(stage, result.verdict):
                    break
        except RunEnds as end:
            self._end(stage.name, end.verdict, end.reason, end.message, lost=end.lost)
            return False
        if worst is None:
            self._end(stage.name, Verdict.ACCEPTED, Reason.NONE, "")
        else:
            self._end(stage.name, worst.verdict, worst.reason, worst.message)
        return worst is None

    def _results(self, stage: Stage) -> Iterator[CaseResult]:
        """Call the cases of a stage, in turns where they are timed, and yield each when it is finished."""
        runs = [
            CaseRun(case, stage, self._spec.rules, self._budget(stage), self._chance) for case in stage.cases
        ]
        for run in runs:
            run.twins_allowed &= self._spec.near_twins
        for run in turns(runs, shuffled=stage.timed, chance=self._chance):
            result = self._step(stage, run)
            if result is None and run.finished:
                result = self._result(run, Verdict.ACCEPTED, Reason.NONE, "")
            if result is not None:
                yield result

    def _step(self, stage: Stage, run: CaseRun) -> CaseResult | None:
        """Make one call and check its answer. Return the case's result if it has failed."""
        from torch import OutOfMemoryError

        from kernelcup_harness.calls import CallFailed
        from kernelcup_harness.task_code import TaskFault
        from kernelcup_harness.wire import CannotCarry

        sample, counts = run.next_sample()
        try:
            fault = self._sample(stage, run, sample, counts=counts)
            self._progress(stage, run)
        except CallFailed as failure:
            run.failed_on = sample
            return self._result(run, *FAILURES[failure.kind], failure.text)
        except TaskFault as error:
            raise self._blame_for_memory(error.__cause__, str(error)) from error
        except CannotCarry as error:
            text = f"the task's {error}; see the task format for what can"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, text) from error
        except OutOfMemoryError as error:
            raise self._blame_for_memory(error, f"the judge ran out of device memory: {error}") from error
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise self._ending(error, stage) from error
        if fault is None:
            return None
        run.failed_on = sample
        return self._result(run, Verdict.WRONG_ANSWER, fault.reason, fault.text, fault.mismatch)

    def _sample(self, stage: Stage, run: CaseRun, sample: SampleName, *, counts: bool) -> Fault | None:
        """Call the contestant once and check what it returned."""
        began = time.monotonic()
        checks, profiled = self._checks, stage.name is StageName.PROFILE
        place = checks.place(stage.name, run.case)
        if sample.twin and not checks.twin_is_input(place, sample.input):
            run.twins_allowed, sample = False, SampleName(input=sample.input)
        data, form = checks.make_input(place, sample), checks.form(place)
        answer = self._caller.call(data, form, timeout_s=self._remaining(), profile=profiled)
        fault = None if profiled else checks.fault(place, sample, data, answer)
        run.add(answer, counts=counts, spent_s=time.monotonic() - began)
        return fault

    def _blame_for_memory(self, cause: BaseException | None, text: str) -> RunEnds:
        """Say whose fault it is that the task's code failed: the contestant's if it holds all the memory."""
        from torch import OutOfMemoryError

        if isinstance(cause, OutOfMemoryError) and self._reservation and self._reservation.is_overdrawn():
            held = self._reservation.contestant_bytes()
            text = f"the submission holds {held / 1e9:.1f} GB of the device's memory and leaves too little"
            return RunEnds(Verdict.MEMORY_LIMIT_EXCEEDED, Reason.DEVICE_MEMORY, text)
        return RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, text)

    def _result(
        self, run: CaseRun, verdict: Verdict, reason: Reason, message: str, mismatch: Mismatch | None = None
    ) -> CaseResult:
        return CaseResult(
            index=run.case.index,
            parameters=run.case.parameters,
            hidden=run.case.hidden,
            verdict=verdict,
            reason=reason,
            message=message[:MAX_MESSAGE],
            mismatch=mismatch,
            failed_on=run.failed_on,
            timing=run.timing(),
            checks=run.count,
            profile=run.profile,
            trace_gz64=run.trace,
        )

    def _budget(self, stage: Stage) -> float:
        """Return the seconds that a case may be sampled: its share of the stage's."""
        return min(self._spec.rules.case_budget_s, 0.8 * stage.limit_s / max(1, len(stage.cases)))

    def _remaining(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _ending(self, error: Exception, stage: Stage) -> RunEnds:
        from kernelcup_harness.calls import GuardBroken

        if isinstance(error, ChannelTimeout):
            return self._time_is_up(stage)
        if isinstance(error, BrokenProtocol):
            reason = Reason.GUARD_BAND if isinstance(error, GuardBroken) else Reason.PROTOCOL
            text = f"the submission interfered with the harness: {error}"
            return RunEnds(Verdict.REJECTED, reason, text)
        return RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, "the submission's process ended", lost=True)

    def _time_is_up(self, stage: Stage) -> RunEnds:
        """Blame whoever used the time: a slow generator or reference is not the submission's fault."""
        text = f"the {stage.name.value} stage took longer than {stage.limit_s:g} s"
        used = self._caller.waited_s
        if used >= stage.limit_s / 2:
            return RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text)
        whose = (
            f"{text}, but the submission ran for only {used:.1f} s of them: the task's own code is too slow"
        )
        return RunEnds(Verdict.INTERNAL_ERROR, Reason.TASK, whose)

    def _receive(self, timeout_s: float, expected: str) -> None:
        """Wait for a frame of one type while the submission is being imported."""
        try:
            frame = self._channel.receive(timeout_s)
        except ChannelTimeout:
            text = f"importing the submission took longer than {timeout_s:g} s"
            raise RunEnds(Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text) from None
        except BrokenProtocol as error:
            text = f"the submission interfered with the harness: {error}"
            raise RunEnds(Verdict.REJECTED, Reason.PROTOCOL, text) from None
        except ChannelClosed:
            text = "the submission's process ended"
            raise RunEnds(Verdict.RUNTIME_ERROR, Reason.EXITED, text, lost=True) from None
        if frame.get("type") == "fail":
            unknown = (Verdict.REJECTED, Reason.PROTOCOL)
            raise RunEnds(
                *FAILURES.get(str(frame.get("kind")), unknown), str(frame.get("text"))[:MAX_MESSAGE]
            )
        if frame.get("type") != expected or frame.get("id") is not None:
            raise RunEnds(Verdict.REJECTED, Reason.PROTOCOL, "the submission answered out of turn")

    def _begin(self, name: StageName, limit_s: float, cases: int) -> None:
        self._runner.send({"event": "stage", "name": name.value, "limit_s": limit_s, "cases": cases})

    def _end(
        self, name: StageName, verdict: Verdict, reason: Reason, message: str, *, lost: bool = False
    ) -> None:
        self._runner.send(
            {
                "event": "stage_end",
                "name": name.value,
                "verdict": verdict.value,
                "reason": reason.value,
                "message": message[:MAX_MESSAGE],
                "lost": lost,
            }
        )

    def _progress(self, stage: Stage, run: CaseRun) -> None:
        now = time.monotonic()
        if now - self._last_progress < PROGRESS_INTERVAL_S:
            return
        self._last_progress = now
        self._runner.send(
            {"event": "sample", "stage": stage.name.value, "case": run.case.index, "samples": run.count}
        )
