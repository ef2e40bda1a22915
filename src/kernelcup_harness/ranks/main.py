"""Sets up the judge of a task that is called on several GPUs."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from kernelcup_harness.clocks.reference_time import SAMPLE
from kernelcup_harness.clocks.sampling import Plans, TimedCase
from kernelcup_harness.clocks.wall import WallClock
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.judge import Clock, Judge
from kernelcup_harness.core.plan import HIDDEN, SUBMISSION, Stage, plan
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.core.verdict import MachineFailed, RunEnds
from kernelcup_harness.device import machine
from kernelcup_harness.device.nvidia.gate import Gate
from kernelcup_harness.device.port import NoGauge
from kernelcup_harness.doubt.device_state import DeviceWatch
from kernelcup_harness.doubt.doubts import Doubts
from kernelcup_harness.isolation.sizes import ranks_of, world_size_of
from kernelcup_harness.judge.load import Parts
from kernelcup_harness.judge.main import SetUp
from kernelcup_harness.protocol import (
    Audit,
    CaseResult,
    Finding,
    JobSpec,
    Reason,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.ranks.calls import LeaderCaller
from kernelcup_harness.ranks.facts import RankFacts
from kernelcup_harness.ranks.leader import LeaderChecks, Ranks, Stuck
from kernelcup_harness.ranks.witnessed import RanksWitness
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import MachineFacts

WITNESS_S = 60.0
"""Time for the witness to begin, and for a contestant to find the gate."""
REFERENCES_A_SAMPLE = 4
"""How many inputs with the reference's answers a sample takes: for the call, the comparison and the check, and to copy
what they make."""
WATCHED_S = 0.1
"""What the witness adds to a sample for each GPU."""


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
        watched = self._witness is not None
        self._ranks = Ranks(spec, self._secret, self._channels, Gate() if watched else None)
        self._facts = RankFacts(spec)
        facts = machine.machine() | {"backend": spec.backend.value} | self._ranks.ask("start")[0]
        self._runner.tell(MachineFacts(environment=facts | self._facts.environment()))
        witness = self._made_witness()
        checks, callers = LeaderChecks(self._ranks), {}
        for role in self._channels:
            callers[role] = LeaderCaller(self._ranks, role, witness)
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

    def _made_witness(self) -> RanksWitness | None:
        """Return the witness, None where it cannot see the counters: the reason is :attr:`_unwitnessed` then."""
        self._unwitnessed = ""
        if self._witness is None:
            return None
        witness = RanksWitness(self._witness)
        self._unwitnessed = witness.greet(WITNESS_S)
        return None if self._unwitnessed else witness

    def _loaded(self, role: str, stages: Sequence[Stage]) -> dict[StageName, Clock]:
        """Have the submission imported in each rank. Raise ``RunEnds``."""
        if role == HIDDEN:
            self._runner.dismiss([SUBMISSION])
        if name := names_a_switch(self._spec.submission.files.values(), os.environ):
            text = f"the submission names {name}, which this machine's operator has set: leave it out"
            raise RunEnds(Verdict.REJECTED, Reason.IMPORT, text)
        world = max((world_size_of(case.parameters) for stage in stages for case in stage.cases), default=1)
        try:
            with self._runner.phase("communicator"):
                self._ranks.ask("greet", role)
                self._ranks.join(world)
                self._ranks.have_joined(role, world)
                if self._ranks.gate is not None and not self._unwitnessed:
                    self._unwitnessed = next(filter(None, self._ranks.ask("use_gate", role, WITNESS_S)), "")
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
            processes=2 * ranks_of(spec),
            tell=runner.tell,
            phase=runner.phase,
        )
        chance = random.Random(derive_seed(self._secret, "order"))
        with runner.phase("reference"):
            reference_s = [self._reference_s(timed[0], number) for number in range(len(timed[0].cases))]
        wall = RanksClock(
            {role: cast("Any", each) for role, each in parts.callers.items()},
            self._unwitnessed,
            self._facts,
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
        """Return the seconds of one sample of a case but for its call. Raise ``TaskFault``."""
        case, checks = stage.cases[number], self._parts.checks
        watched = self._ranks.gate is not None and not self._unwitnessed
        watched_s = WATCHED_S * world_size_of(case.parameters) if watched else 0.0
        if case.index < len(self._spec.reference_s):
            return watched_s + self._spec.reference_s[case.index]
        place = checks.place(stage.name, case)
        checks.form(place)
        began = time.monotonic()
        checks.expected(checks.make_input(place, SAMPLE))
        return watched_s + REFERENCES_A_SAMPLE * (time.monotonic() - began)


class RanksClock(WallClock):
    """Times calls on several GPUs: those that can be queued by the witness, others by the judge's wall clock.

    Args:
        callers: Make the calls, by role.
        unwitnessed: Why there is no witness; empty if there is one.
        facts: What the report says about the ranks.
    """

    def __init__(
        self,
        callers: Mapping[str, LeaderCaller],
        unwitnessed: str,
        facts: RankFacts,
        *plans: Plans,
        **others: Any,
    ) -> None:
        super().__init__(*plans, **others)
        self._callers, self._unwitnessed, self._facts = callers, unwitnessed, facts

    def results(self, stage: Stage, judge: Judge, known: Sequence[Finding] = ()) -> Iterator[CaseResult]:
        """Yield the results, and report the times of each rank for the cases that are not hidden."""
        yield from super().results(stage, judge, known)
        for case in stage.cases:
            if not case.hidden:
                self._facts.add(stage.name, case.index, self._callers[case.role].rank_ns)
        self._runner.tell(MachineFacts(environment=self._facts.environment()))

    def ranked(self, stage: Stage, case: TimedCase) -> Timing:
        """Return the times of a case, with the clock that they are of."""
        caller, key = self._callers[case.case.role], (stage.name, case.case.index)
        timing = case.timing()
        assert timing is not None
        why = self._unwitnessed or caller.unwatched.get(key, "") or ("" if caller.is_watched else NO_GPU)
        level = TrustLevel.WALL_CLOCK if why else TrustLevel.WITNESSED
        finding = Finding(code="not_witnessed", text=why) if why else Finding(code="launched", text=LAUNCHED)
        findings = [] if why == NO_GPU else [finding]
        if level is TrustLevel.WITNESSED and (
            text := rank_times_differ(timing.raw_ns, caller.rank_ns.get(key, []))
        ):
            findings.append(Finding(code="rank_times_differ", text=text, quarantines=True))
        if late := caller.late_starts.get(key, 0):
            findings.append(Finding(code="late_starts", text=f"{late} calls do not count: a GPU began late"))
        audit = Audit(score_ns=timing.raw_ns, level=level, findings=findings)
        return case.timing(audit) or timing


APART = 0.1
"""How far a score may lie from the time of the slowest rank."""


def rank_times_differ(score_ns: float, calls: Sequence[Sequence[float]]) -> str:
    """Return in words how a score differs from the slowest rank's time, empty if it does not.

    The score counts what passes over the links when no multiprocessor works, which the judge's own copies do as well.

    Args:
        score_ns: The score.
        calls: For each call the times of all ranks.
    """
    slowest_ns = statistics.median(map(max, calls)) if calls else score_ns
    if abs(score_ns - slowest_ns) <= APART * slowest_ns:
        return ""
    return f"the score is {score_ns / 1e3:.2f} us, and the slowest GPU worked for {slowest_ns / 1e3:.2f} us"


SWITCHES = ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS")
"""An operator turns NVLink's multicast off by these variables."""


def names_a_switch(texts: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the first variable of the operator's that a submission names, and so might change; empty if none."""
    whole = "\n".join(texts)
    return next((name for name in SWITCHES if name in environ and name in whole), "")


NO_GPU = "no GPU"
LAUNCHED = "launched by the submission's processes"
