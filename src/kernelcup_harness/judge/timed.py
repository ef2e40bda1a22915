"""The clocks of a job that is timed or profiled, made before any code of the submission runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kernelcup_harness.clocks import baseline, reference_time
from kernelcup_harness.clocks.replay.graph_timer import GraphTimer
from kernelcup_harness.clocks.replay.rival import load
from kernelcup_harness.clocks.replay.session import ReplayClock, Rival, Session
from kernelcup_harness.clocks.replay.stage import StageContext
from kernelcup_harness.clocks.sampling import Plans
from kernelcup_harness.clocks.wall import WallClock
from kernelcup_harness.core.call import Caller, Calls
from kernelcup_harness.core.judge import Clock, Judge, parameters_of
from kernelcup_harness.core.plan import HIDDEN, SUBMISSION, CaseCalls, PlannedCase, Stage
from kernelcup_harness.core.requests import Line
from kernelcup_harness.core.verdict import MachineFailed, RunEnds
from kernelcup_harness.device import accelerators
from kernelcup_harness.doubt.device_state import DeviceWatch
from kernelcup_harness.doubt.doubts import Doubts
from kernelcup_harness.doubt.overhead import Overheads
from kernelcup_harness.judge.load import Parts
from kernelcup_harness.protocol import Backend, CaseResult, Mode, RankingBy, Reason, StageName, Verdict
from kernelcup_harness.wire import devices
from kernelcup_harness.wire.messages import CasePrepared, Prepare


class Clocks:
    """Makes the clocks of timed stages, those of hidden cases when all that has met public ones is gone.

    Args:
        parts: What the clocks are made of.
        chance: From the job's secret: decides which calls are timed and in which order.

    Raise ``RunEnds`` if the device or a process of the harness fails.
    """

    def __init__(self, parts: Parts, chance: random.Random) -> None:
        spec, runner = parts.spec, parts.runner
        assert parts.task is not None
        self._parts, self._task, self._chance = parts, parts.task, chance
        self._doubts = Doubts(
            spec,
            checks=parts.checks,
            watch=DeviceWatch(devices.on_gpu(), accelerators.of(spec.backend).gauge()),
            # The judge, its checker, the timers and the contestants.
            processes=3 + len(parts.callers) + (spec.rival is not None),
            tell=runner.tell,
            phase=runner.phase,
        )
        if spec.replay is None and spec.mode is Mode.LEADERBOARD and spec.backend is not Backend.EMULATED:
            self._doubts.take_canary()
        if parts.session is not None:
            open_session(parts, parts.session, chance)

    def of(self, stages: Sequence[Stage]) -> dict[StageName, Clock]:
        """Return the clock of each timed stage: the last work on a device that is ours alone. Raise ``RunEnds``."""
        parts, runner, session = self._parts, self._parts.runner, self._parts.session
        timed = [stage for stage in stages if stage.timed]
        if session is not None:
            for stage in timed:
                session.lay_out(stage)
        calls_of = partial(made_by, parts)
        overheads = measured(parts, Overheads(parts.checks, parts.callers, calls_of), timed)
        with runner.phase("reference"):
            reference_s = reference_time.of_job(parts.spec, timed, self._task, parts.checks)
        if parts.spec.ranking_by is RankingBy.SPEEDUP and parts.spec.replay is None:
            with runner.phase("baseline"):
                timer, graphs = self._doubts.timer(), None
                if session is not None and session.finding is None:
                    graphs = GraphTimer(
                        session.witness,
                        self._doubts.timer(clean=True),
                        accelerators.of(parts.spec.backend).captured,
                    )
                self._doubts.baselines_ns = baseline.measured(
                    parts.spec, timed, self._task, parts.checks, timer, graphs
                )
        plans = Plans(spec=parts.spec, reference_s=reference_s, chance=self._chance, gpu=self._doubts.gpu)
        wall = WallClock(
            plans,
            checks=parts.checks,
            calls_of=calls_of,
            overhead_ns=overheads.of,
            remaining=parts.deadline.remaining,
            doubt=self._doubts,
            runner=runner,
        )
        clock: Clock = wall
        if session is not None:
            around = StageContext(
                phase=runner.phase, dismiss=self._dismiss, doubt=self._doubts, chance=self._chance
            )
            clock = ReplayClock(session, plans, wall, around)
        return {stage.name: clock for stage in timed}

    def _dismiss(self, stage: Stage) -> None:
        """Have all contestants ended that no stage needs any more; the rival is captured when they are gone."""
        later = {"rival"} | ({HIDDEN} if not stage.is_hidden else set())
        self._parts.runner.dismiss([role for role in self._parts.channels if role not in later])


def made_by(parts: Parts, stage: Stage, case: PlannedCase) -> Calls:
    """Return what makes the calls of a case: through the window if its inputs lie there."""
    calls = parts.session.calls(stage, case) if parts.session is not None else None
    return calls or parts.callers[case.role]


def measured(parts: Parts, overheads: Overheads, stages: Sequence[Stage]) -> Overheads:
    """Measure what a call costs that computes nothing. Raise ``RunEnds`` if a process of the harness fails."""
    if parts.spec.replay is not None or parts.spec.binary is not None:
        return overheads
    try:
        with parts.runner.phase("overheads"):
            overheads.measure(stages)
    except MachineFailed as error:
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, str(error)) from error
    return overheads


def profiled(parts: Parts, chance: random.Random) -> Callable[[Sequence[Stage]], dict[StageName, Clock]]:
    """Return what makes the clock of a profile job: it is not tried, under a profiler it would be slow."""
    session = parts.session
    assert session is not None
    open_session(parts, session, chance, clock=False)
    return lambda stages: {stage.name: ProfileClock(session) for stage in stages}


class ProfileClock:
    """Has the call of a profile job replayed under the profiler, in the place of a clock.

    Args:
        session: The clean room, which is open.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the submission's processes."""
        return self._session.waited_s

    def results(self, stage: Stage, judge: Judge) -> Iterator[CaseResult]:
        """Yield the result of the case; none if its call cannot be replayed, and then the runner goes on."""
        for case in stage.cases:
            calls = CaseCalls(case)
            with self._session.replaying() as room:
                if room is None:
                    return
                steps = (
                    partial(room.lay_out, stage),
                    partial(room.capture, calls),
                    partial(room.load, calls),
                    partial(room.profile, calls),
                )
                failed = next(filter(None, (judge.attempt(stage, calls, each) for each in steps)), None)
                yield failed if failed is not None else judge.accepted(calls)


def open_session(parts: Parts, session: Session, chance: random.Random, *, clock: bool = True) -> None:
    """Place the submission's memory where its calls can be replayed.

    Raise ``RunEnds`` for a ranked job if the clock that is there does not work now.
    """
    assert parts.task is not None
    contestants: dict[str, tuple[Caller | None, Line]] = {
        role: (parts.callers[role], Line(parts.channels[role]))
        for role in (SUBMISSION, HIDDEN)
        if role in parts.callers
    }
    if parts.spec.binary is not None:
        contestants = {SUBMISSION: (None, session.line_of(SUBMISSION, parts.spec.binary))}
    session.open(
        rival=rival_of(parts, session),
        checks=parts.checks,
        contestants=contestants,
        chance=chance,
        remaining=parts.deadline.remaining,
        record_type=parts.task.record_type,
        result_bytes=parts.spec.limits.result_bytes,
        clock=clock,
        every_share=parts.spec.own_share is not None,
        keeps_binary=parts.spec.mode is Mode.LEADERBOARD and not parts.spec.partial,
    )
    if session.trouble and parts.spec.mode is Mode.LEADERBOARD:
        # By another clock it would rank beside times that have nothing to do with it.
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, session.trouble)


def rival_of(parts: Parts, session: Session) -> Rival | None:
    """Return the rival's process or its kept binary, None without one."""
    spec = parts.spec
    if spec.rival_binary is not None:
        line = session.line_of("rival", spec.rival_binary)
        return Rival(caller=None, line=line, load=lambda: None, error=spec.rival_error)
    if "rival" not in parts.channels or spec.rival is None:
        return None
    asked, remaining = Line(parts.channels["rival"]), parts.deadline.remaining

    def prepare(limit_s: float) -> None:
        for case in (case for stage in parts.stages if stage.timed for case in stage.cases):
            request = Prepare(parameters=parameters_of(case))
            asked.ask(request, CasePrepared, timeout_s=min(limit_s, remaining()))

    ready = partial(prepare, spec.prepare_s) if spec.prepare_s is not None else None
    return Rival(
        caller=parts.callers["rival"],
        line=asked,
        load=partial(load, parts.channels["rival"], spec.rival.entry, spec.limits.import_s, remaining, ready),
        error=spec.rival_error,
    )
