"""Sets up the judge of a task that is called on several GPUs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from kernelcup_harness.clocks.sampling import Plans
from kernelcup_harness.clocks.wall import WallClock
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.judge import Clock, Judge
from kernelcup_harness.core.plan import HIDDEN, SUBMISSION, Stage, plan
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.core.verdict import MachineFailed, RunEnds
from kernelcup_harness.device import machine
from kernelcup_harness.device.port import NoGauge
from kernelcup_harness.doubt.device_state import DeviceWatch
from kernelcup_harness.doubt.doubts import Doubts
from kernelcup_harness.judge.load import Parts
from kernelcup_harness.judge.main import SetUp
from kernelcup_harness.protocol import JobSpec, Reason, StageName, Verdict
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.protocol.spec import world_size_of
from kernelcup_harness.ranks.leader import LeaderCaller, LeaderChecks, Ranks, Stuck
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import MachineFacts

CALLS_PER_SAMPLE = 4
"""How many times as long as the reference alone one sample of it may take: two inputs, the reference, the check."""


def judge(spec: JobSpec, secret: bytes, runner: Channel, channels: Mapping[str, Channel]) -> None:
    """Judge one job on several GPUs: see :func:`kernelcup_harness.judge.main.judge`."""
    line = RunnerLine(runner)
    with ExitStack() as ending:
        set_up = RanksSetUp(spec, secret, line, channels, ending)
        for role in set_up.roles():
            prepared = set_up.prepared(role)
            if prepared is None or not Judge(prepared).judge():
                break
        line.end_job()


class RanksSetUp(SetUp):
    """Makes what a judge needs whose calls go to several GPUs."""

    def _made(self) -> Parts:
        """Fork the judges of the GPU ranks, and have each load the task. Raise ``TaskFault``."""
        spec, stages = self._spec, plan(self._spec)
        self._ranks = Ranks(spec, self._secret, self._channels)
        facts = machine.machine() | {"backend": spec.backend.value} | self._ranks.ask("start")[0]
        facts["ranks"] = {"count": spec.ranks, "communication": communication(spec)}
        self._runner.tell(MachineFacts(environment=facts))
        checks, callers = LeaderChecks(self._ranks), {}
        for role in self._channels:
            callers[role] = LeaderCaller(self._ranks, role)
        return Parts(
            spec=spec,
            runner=self._runner,
            channels=self._channels,
            deadline=self._deadline,
            task=None,
            stages=stages,
            # They have the methods that the judge and its clocks call, over inputs that each rank makes itself.
            checks=cast("Checks", checks),
            callers=cast("Any", callers),
            session=None,
            reservation=None,
        )

    def _loaded(self, role: str, stages: Sequence[Stage]) -> dict[StageName, Clock]:
        """Have the submission imported in each rank. Raise ``RunEnds``."""
        if role == HIDDEN:
            self._runner.dismiss([SUBMISSION])
        world = max((world_size_of(case.parameters) for stage in stages for case in stage.cases), default=1)
        try:
            with self._runner.phase("communicator"):
                self._ranks.ask("greet", role)
                self._ranks.join(world)
                self._ranks.have_joined(role, world)
        except (Stuck, MachineFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            text = f"the processes of the {role} did not become a group: {error or type(error).__name__}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text) from error
        with self._runner.phase("load"):
            self._ranks.ask("load", role)
        return self._clocks_of(stages)

    def _clocks_of(self, stages: Sequence[Stage]) -> dict[StageName, Clock]:
        """Return the clock of each timed stage."""
        spec, parts, runner = self._spec, self._parts, self._runner
        timed = [stage for stage in stages if stage.timed]
        if not timed:
            return {}
        doubts = Doubts(
            spec,
            checks=parts.checks,
            watch=DeviceWatch(False, NoGauge()),
            processes=2 * spec.ranks,
            tell=runner.tell,
            phase=runner.phase,
        )
        chance = random.Random(derive_seed(self._secret, "order"))
        with runner.phase("reference"):
            reference_s = [self._reference_s(timed[0], number) for number in range(len(timed[0].cases))]
        wall = WallClock(
            Plans(spec=spec, reference_s=reference_s, chance=chance, gpu=False),
            checks=parts.checks,
            calls_of=lambda _stage, case: parts.callers[case.role],
            overhead_ns=lambda *_: None,
            remaining=partial(self._deadline.remaining),
            doubt=doubts,
            runner=runner,
        )
        return {stage.name: wall for stage in timed}

    def _reference_s(self, stage: Stage, number: int) -> float:
        """Return the seconds of one sample of a case, as far as the task's own code takes them. Raise ``TaskFault``."""
        case = stage.cases[number]
        if case.index < len(self._spec.reference_s):
            return self._spec.reference_s[case.index]
        form = self._parts.checks.form(self._parts.checks.place(stage.name, case))
        return CALLS_PER_SAMPLE * form.reference_s if form is not None else 0.0


def communication(spec: JobSpec) -> str:
    """Return the library that collectives go through, with its version."""
    if spec.backend.value != "cuda":
        return "gloo (nccl is answered by it)"
    import torch

    return "nccl " + ".".join(map(str, torch.cuda.nccl.version()))
