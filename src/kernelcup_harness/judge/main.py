"""Sets up the judge: who it talks to, what it checks with, and the submission's import. Then it is made, and judges."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelcup_harness.core.call import Caller
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.judge import Clock, Deadline, Judge, Prepared
from kernelcup_harness.core.plan import HIDDEN, SUBMISSION, Stage, plan
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.core.task import TaskCode, TaskFault
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.device import accelerators, machine, memory
from kernelcup_harness.explain import chips
from kernelcup_harness.explain.differences import first_mismatch
from kernelcup_harness.judge.load import Parts, greet, load
from kernelcup_harness.protocol import Backend, JobSpec, Reason, StageName, Verdict
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.submission.languages import task_functions
from kernelcup_harness.wire import devices
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.job_messages import MachineFacts

if TYPE_CHECKING:
    from kernelcup_harness.clocks.replay.session import Session

TIMER, WITNESS = "timer", "witness"
ROLES = (SUBMISSION, HIDDEN)


def judge(spec: JobSpec, secret: bytes, runner: Channel, channels: Mapping[str, Channel]) -> None:
    """Judge one job.

    Args:
        spec: The job.
        secret: Decides its inputs and their order.
        runner: To the runner.
        channels: To the contestants, the timer and the witness, by role.
    """
    line = RunnerLine(runner)
    with ExitStack() as ending:
        prepared = SetUp(spec, secret, line, channels, ending).prepared()
        if prepared is not None:
            Judge(prepared).judge()
        line.end_job()


class SetUp:
    """Makes all that a judge needs, in an order that matters.

    Args:
        spec: The job.
        secret: Decides its inputs and their order.
        runner: To the runner.
        channels: To the contestants, the timer and the witness, by role.
        ending: Closes what was opened.
    """

    def __init__(
        self,
        spec: JobSpec,
        secret: bytes,
        runner: RunnerLine,
        channels: Mapping[str, Channel],
        ending: ExitStack,
    ) -> None:
        self._spec = spec
        self._secret = secret
        self._runner = runner
        self._channels = {role: each for role, each in channels.items() if role not in (TIMER, WITNESS)}
        self._timer, self._witness = channels.get(TIMER), channels.get(WITNESS)
        self._deadline = Deadline()
        self._ending = ending

    def prepared(self) -> Prepared | None:
        """Return what a judge needs once the submission is loaded. Report why it is not, and return None."""
        spec = self._spec
        try:
            with self._runner.phase("set-up"):
                parts = self._parts()
        except (TaskFault, LookupError) as fault:
            self._runner.begin(StageName.IMPORT, spec.limits.import_s, 0)
            self._runner.end(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.TASK, str(fault))
            return None
        self._runner.begin(StageName.IMPORT, spec.limits.import_s, 0)
        try:
            clocks = self._loaded(parts)
        except RunEnds as end:
            self._runner.end_with(StageName.IMPORT, end)
            return None
        self._runner.end(StageName.IMPORT)
        return Prepared(
            spec=spec,
            stages=parts.stages,
            runner=self._runner,
            checks=parts.checks,
            callers={role: each for role, each in parts.callers.items() if role in ROLES},
            clocks=clocks,
            deadline=self._deadline,
            reservation=parts.reservation,
        )

    def _parts(self) -> Parts:
        """Load the task. Raise ``TaskFault``, or ``LookupError`` for a replay of a case that the job does not have."""
        spec, gpu = self._spec, self._spec.backend is Backend.CUDA
        # This has to come first: later the addresses of the window may be taken.
        session = self._window()
        self._runner.tell(MachineFacts(environment=environment(spec.backend)))
        reservation = memory.reserve(accelerators.of(spec.backend).memory())
        task = TaskCode(
            spec.reference_module, spec.check_style, Path.cwd(), load=task_functions, lacks=chips.missing
        )
        stages = plan(spec)
        parts = Parts(
            spec=spec,
            runner=self._runner,
            channels=self._channels,
            deadline=self._deadline,
            task=task,
            stages=stages,
            checks=self._checks(task, stages),
            callers={role: self._caller(channel, task) for role, channel in self._channels.items()},
            session=session,
            reservation=reservation,
        )
        if gpu and parts.is_timed:
            self._runner.tell(MachineFacts(environment={"gpu": accelerators.of(spec.backend).state()}))
        return parts

    def _window(self) -> Session | None:
        if self._timer is None:
            return None
        from kernelcup_harness.clocks.replay.session import Session

        session = Session(self._timer, self._runner, memory.part(), self._witness)
        self._ending.callback(session.close)
        return session

    def _checks(self, task: TaskCode, stages: Sequence[Stage]) -> Checks:
        spec, more = self._spec, None
        if spec.near_twins and (spec.rules.test_twins or any(stage.timed for stage in stages)):
            from kernelcup_harness.doubt.near_twins import NearTwins

            more = NearTwins(task, self._secret)
        return Checks(
            task,
            self._secret,
            more=more,
            explain=first_mismatch,
            aliasing=spec.aliasing,
            non_finite=spec.non_finite,
            same_dtype=spec.same_dtype,
            seeds_below=spec.seeds_below,
        )

    def _caller(self, channel: Channel, task: TaskCode) -> Caller:
        channel.busy_s = devices.busy_s()
        caller = Caller(channel, task.record_type, self._spec.limits.result_bytes, gpu=devices.on_gpu())
        self._ending.callback(caller.close)
        return caller

    def _loaded(self, parts: Parts) -> dict[StageName, Clock]:
        """Have the submission imported; return the clocks, which were made before. Raise ``RunEnds``."""
        clocks: dict[StageName, Clock] = {}
        with self._runner.phase("context"):
            greet(self._channels)
        if parts.is_timed:
            from kernelcup_harness.judge import timed

            clocks = timed.clocks(parts, random.Random(derive_seed(self._secret, "order")))
        elif parts.session is not None:
            from kernelcup_harness.judge import timed

            chance = random.Random(derive_seed(self._secret, "order"))
            clocks = timed.profiled(parts, parts.session, chance)
        if parts.reservation is not None:
            parts.reservation.mark()
        submissions = {role: each for role, each in self._channels.items() if role in ROLES}
        with self._runner.phase("load"):
            load(submissions, self._spec.submission.entry, self._spec.limits.import_s)
        return clocks


def environment(backend: Backend) -> dict[str, Any]:
    """Describe device, libraries and machine."""
    return {
        **machine.machine(),
        "backend": backend.value,
        "torch": torch.__version__,
        **accelerators.of(backend).describe(),
    }
