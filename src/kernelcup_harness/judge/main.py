"""Sets up the judge: who it talks to, what it checks with, and the submission's import. Then it is made, and judges."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
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
from kernelcup_harness.judge.checker import CheckerProcess
from kernelcup_harness.judge.load import Parts, greet, load
from kernelcup_harness.protocol import Backend, JobSpec, Reason, StageName, Verdict
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.submission import salt
from kernelcup_harness.submission.languages import task_functions
from kernelcup_harness.wire import devices
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.job_messages import MachineFacts

if TYPE_CHECKING:
    from kernelcup_harness.clocks.replay.session import Session
    from kernelcup_harness.judge.fork_server import ForkServer

TIMERS, WITNESS = ("timer", "rival-timer"), "witness"
ROLES = (SUBMISSION, HIDDEN)


def judge(
    spec: JobSpec,
    secret: bytes,
    runner: Channel,
    channels: Mapping[str, Channel],
    server: ForkServer | None = None,
) -> None:
    """Judge one job.

    Args:
        spec: The job.
        secret: Decides its inputs and their order.
        runner: To the runner.
        channels: To the contestants, the timers and the witness, by role.
        server: Forks what checks answers; None to check them in this process.
    """
    line = RunnerLine(runner)
    with ExitStack() as ending:
        set_up = SetUp(spec, secret, line, channels, ending, server)
        # All that has met public cases is gone before the first hidden input is made.
        for role in set_up.roles():
            prepared = set_up.prepared(role)
            if prepared is None or not Judge(prepared).judge():
                break
        line.end_job()


class SetUp:
    """Makes all that a judge needs, in an order that matters.

    Args:
        spec: The job.
        secret: Decides its inputs and their order.
        runner: To the runner.
        channels: To the contestants, the timers and the witness, by role.
        ending: Closes what was opened.
        server: Forks what checks answers; None to check them in this process.
    """

    def __init__(
        self,
        spec: JobSpec,
        secret: bytes,
        runner: RunnerLine,
        channels: Mapping[str, Channel],
        ending: ExitStack,
        server: ForkServer | None = None,
    ) -> None:
        self._spec = spec
        self._secret = secret
        self._runner = runner
        self._channels = {role: each for role, each in channels.items() if role not in (*TIMERS, WITNESS)}
        self._timer, self._rival_timer = map(channels.get, TIMERS)
        self._witness = channels.get(WITNESS)
        self._deadline = Deadline()
        self._ending = ending
        self._clocks: Callable[[Sequence[Stage]], dict[StageName, Clock]] | None = None
        self._checker: CheckerProcess | None = None
        if server is not None:
            # It makes its context beside this process, and ends with it.
            gpu = spec.backend is Backend.CUDA
            self._checker = CheckerProcess(server, self._deadline.remaining, lends=gpu)

    def roles(self) -> list[str]:
        """Return the contestants that have stages, in order. Report why the task cannot be used, and return none."""
        try:
            with self._runner.phase("set-up"):
                self._parts = self._made()
        except (TaskFault, LookupError) as fault:
            self._runner.begin(StageName.IMPORT, self._spec.limits.import_s)
            self._runner.end(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.TASK, str(fault))
            return []
        return list(dict.fromkeys(stage.role for stage in self._parts.stages))

    def prepared(self, role: str) -> Prepared | None:
        """Return what a judge needs for the stages of a contestant that has loaded the submission.

        Report why it has not, and return None.
        """
        parts = self._parts
        stages = [stage for stage in parts.stages if stage.role == role]
        self._runner.begin(StageName.IMPORT, self._spec.limits.import_s)
        try:
            clocks = self._loaded(role, stages)
        except RunEnds as end:
            self._runner.end_with(StageName.IMPORT, end, met_hidden=role == HIDDEN)
            return None
        self._runner.end(StageName.IMPORT)
        return Prepared(
            spec=self._spec,
            stages=stages,
            runner=self._runner,
            checks=parts.checks,
            callers={role: each for role, each in parts.callers.items() if role in ROLES},
            clocks=clocks,
            deadline=self._deadline,
            reservation=parts.reservation,
        )

    def _made(self) -> Parts:
        """Load the task. Raise ``TaskFault``, or ``LookupError`` for a replay of a case that the job does not have."""
        spec, gpu = self._spec, self._spec.backend is Backend.CUDA
        # This has to come first: later the addresses of the window may be taken.
        session = self._window()
        self._runner.tell(MachineFacts(environment=environment(spec.backend)))
        reservation = memory.reserve(accelerators.of(spec.backend).memory())
        salt.install()
        task = TaskCode(
            spec.reference_module,
            spec.check_style,
            Path.cwd(),
            load=task_functions,
            lacks=chips.missing,
            salted=salt.salted,
        )
        if self._checker is not None:
            # Not before: what it loads may have been compiled here.
            self._checker.load(spec)
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

        session = Session(self._timer, self._runner, memory.part(), self._witness, self._rival_timer)
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
            spec,
            more=more,
            checker=self._checker,
            explain=self._checker.explain if self._checker is not None else first_mismatch,
        )

    def _caller(self, channel: Channel, task: TaskCode) -> Caller:
        channel.busy_s = devices.busy_s()
        caller = Caller(channel, task.record_type, self._spec.limits.result_bytes, gpu=devices.on_gpu())
        self._ending.callback(caller.close)
        return caller

    def _loaded(self, role: str, stages: Sequence[Stage]) -> dict[StageName, Clock]:
        """Have the submission imported; return the clocks, which were made before. Raise ``RunEnds``."""
        if role == HIDDEN:
            self._runner.dismiss([SUBMISSION])
        if self._clocks is None:
            self._clocks = self._opened(self._parts)
        clocks = self._clocks(stages)
        if self._parts.reservation is not None:
            self._parts.reservation.mark()
        with self._runner.phase("load"):
            load(self._channels, role, self._spec.submission.entry, self._spec.limits.import_s)
        return clocks

    def _opened(self, parts: Parts) -> Callable[[Sequence[Stage]], dict[StageName, Clock]]:
        """Return what makes the clocks of stages, before any code of a submission runs. Raise ``RunEnds``."""
        with self._runner.phase("context"):
            greet(self._channels)
            if self._checker is not None and parts.reservation is not None:
                # What it holds of a device is no submission's, and clocks want the device for themselves.
                self._checker.wait()
        if not parts.is_timed and parts.session is None:
            return lambda _stages: {}
        from kernelcup_harness.judge import timed

        chance = random.Random(derive_seed(self._secret, "order"))
        return timed.Clocks(parts, chance).of if parts.is_timed else timed.profiled(parts, chance)


def environment(backend: Backend) -> dict[str, Any]:
    """Describe device, libraries and machine."""
    return {
        **machine.machine(),
        "backend": backend.value,
        "torch": torch.__version__,
        **accelerators.of(backend).describe(),
    }
