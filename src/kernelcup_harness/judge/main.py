"""The process that decides. It makes inputs, calls the contestant, checks answers and times calls.

Every byte from the contestant is hostile. The judge sends its findings to the runner one by
one, so that none is lost when the run is cut off.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernelcup_harness.judge import verdicts
from kernelcup_harness.judge.budget import budgets_s
from kernelcup_harness.judge.runner_line import RunnerLine, case_result
from kernelcup_harness.judge.schedule import (
    HIDDEN,
    SUBMISSION,
    CaseRun,
    PlannedCase,
    Stage,
    ends_stage,
    plan,
)
from kernelcup_harness.judge.turns import turns
from kernelcup_harness.judge.verdicts import FAILURES, RunEnds
from kernelcup_harness.protocol import (
    Backend,
    CaseResult,
    JobSpec,
    Mismatch,
    Reason,
    SampleName,
    StageName,
    Verdict,
)
from kernelcup_harness.protocol.seeds import derive_seed
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import CaseEnds, Dueled, End, Phases, Surroundings

if TYPE_CHECKING:
    from kernelcup_harness.judge.caller import Caller, Calls
    from kernelcup_harness.judge.port import Audits, MakeAudits
    from kernelcup_harness.judge.replay.session import Session
    from kernelcup_harness.judge.replay.stage import Judging
    from kernelcup_harness.judge.task import TaskCode

TIMER, WITNESS = "timer", "witness"
ROLES = (SUBMISSION, HIDDEN)


class Judge:
    """One job from the contestant's hello to the last verdict."""

    def __init__(
        self,
        spec: JobSpec,
        secret: bytes,
        runner: Channel,
        contestants: Mapping[str, Channel],
        make_audits: MakeAudits,
    ) -> None:
        self._spec = spec
        self._secret = secret
        self._runner = RunnerLine(runner)
        self._channels = {role: each for role, each in contestants.items() if role not in (TIMER, WITNESS)}
        self._submissions = {role: self._channels[role] for role in ROLES if role in contestants}
        self._timer, self._witness = contestants.get(TIMER), contestants.get(WITNESS)
        self._session: Session | None = None
        self._make_audits = make_audits
        self._bench: Audits | None = None
        self._callers: dict[str, Caller] = {}
        self._deadline = 0.0
        self._reference_s: list[float] = []
        # Decides which calls are timed and in which order: unpredictable until the secret is revealed.
        self._chance = random.Random(derive_seed(secret, "order"))

    def judge(self) -> None:
        """Run all stages and report each; the first stage that is not accepted ends the run."""
        try:
            self._judge()
        finally:
            for caller in self._callers.values():
                caller.close()
            if self._session is not None:
                self._session.close()

    def _judge(self) -> None:
        from kernelcup_harness.device import machine, memory, nvml
        from kernelcup_harness.judge import task as task_code

        began = time.monotonic()
        gpu = self._spec.backend is Backend.CUDA
        if self._timer is not None:
            from kernelcup_harness.judge.replay import session

            # This has to come first: later the addresses of the window may be taken.
            self._session = session.Session(self._timer, self._runner.tell, memory.part(), self._witness)
        self._runner.tell(Surroundings(environment=machine.environment(self._spec.backend)))
        self._reservation = memory.reserve(gpu)
        try:
            task = task_code.TaskCode(self._spec.reference_module, self._spec.check_style, Path.cwd())
            stages = plan(self._spec)
        except (task_code.TaskFault, LookupError) as fault:
            self._runner.begin(StageName.IMPORT, self._spec.limits.import_s, 0)
            self._runner.end(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.TASK, str(fault))
            self._runner.tell(End())
            return
        self._bench = self._prepared(task)
        if gpu:
            self._runner.tell(Surroundings(environment={"gpu": nvml.gpu_state()}))
        set_up_s = time.monotonic() - began
        loaded = self._load(stages)
        if loaded:
            for stage in stages:
                if not self._run_stage(stage):
                    break
        phases = self._session.phases if self._session is not None else {}
        self._runner.tell(Phases(phases={"set-up": set_up_s, **self._bench.phases, **phases}))
        self._runner.tell(End())

    def _prepared(self, task: TaskCode) -> Audits:
        """Make what checks answers and what calls each contestant; return what audits the times."""
        from kernelcup_harness.device import devices
        from kernelcup_harness.judge.caller import Caller
        from kernelcup_harness.judge.checks import Checks

        spec = self._spec
        self._checks = Checks(
            task,
            self._secret,
            aliasing=spec.aliasing,
            non_finite=spec.non_finite,
            same_dtype=spec.same_dtype,
            seeds_below=spec.seeds_below,
        )
        self._task = task
        self._record_type = task.record_type
        gpu, result_bytes = devices.on_gpu(), spec.limits.result_bytes
        for role, channel in self._channels.items():
            channel.busy_s = devices.busy_s()
            self._callers[role] = Caller(channel, task.record_type, result_bytes, gpu=gpu)
        return self._make_audits(
            spec,
            checks=self._checks,
            callers=self._callers,
            tell=self._runner.tell,
        )

    def _load(self, stages: list[Stage]) -> bool:
        """Have the submission imported. Report a failure and return False if the import fails."""
        from kernelcup_harness.judge import reference_time
        from kernelcup_harness.judge.requests import greet, load

        limit_s = self._spec.limits.import_s
        self._runner.begin(StageName.IMPORT, limit_s, 0)
        assert self._bench is not None
        try:
            with self._bench.watch.phase("context"):
                greet(self._channels)
            # The last moment at which the device is ours alone: no code of a submission has run.
            self._bench.before_load()
            self._open_session(stages)
            self._bench.measure_overheads(stages, self._calls_of)
            with self._bench.watch.phase("reference"):
                self._reference_s = reference_time.of_job(self._spec, stages, self._task, self._checks)
            if self._reservation is not None:
                self._reservation.mark()
            with self._bench.watch.phase("load"):
                load(self._submissions, self._spec.submission_name, limit_s)
        except RunEnds as end:
            self._runner.end_with(StageName.IMPORT, end)
            return False
        self._runner.end(StageName.IMPORT)
        return True

    def _calls_of(self, stage: Stage, case: PlannedCase) -> Calls:
        """Return what makes the calls of a case: through the window if its inputs lie there."""
        calls = self._session.calls(stage, case) if self._session is not None else None
        return calls or self._callers[case.role]

    def _open_session(self, stages: list[Stage]) -> None:
        """Place the submission's memory where its calls can be replayed."""
        if self._session is None:
            return
        assert self._bench is not None
        rival = None
        if "rival" in self._channels:
            from kernelcup_harness.judge.replay.rival import load
            from kernelcup_harness.judge.replay.session import Rival

            spec, channel = self._spec, self._channels["rival"]
            rival = Rival(
                caller=self._callers["rival"],
                channel=channel,
                load=partial(load, channel, spec.rival_name, spec.limits.import_s, self._remaining),
                error=spec.rival_error,
            )
        self._session.open(
            rival=rival,
            checks=self._checks,
            contestants={role: (self._callers[role], each) for role, each in self._submissions.items()},
            chance=self._chance,
            remaining=self._remaining,
            record_type=self._record_type,
            result_bytes=self._spec.limits.result_bytes,
        )
        for stage in stages:
            self._session.lay_out(stage)

    def _run_stage(self, stage: Stage) -> bool:
        """Run the cases of a stage and return whether all were accepted."""
        self._runner.begin(stage.name, stage.limit_s, len(stage.cases))
        self._deadline = time.monotonic() + stage.limit_s
        for caller in self._callers.values():
            caller.waited_s = 0.0
        worst: CaseResult | None = None
        try:
            for result in self._results(stage):
                self._runner.tell(CaseEnds(stage=stage.name, case=result))
                if result.verdict is not Verdict.ACCEPTED and worst is None:
                    worst = result
                if ends_stage(stage, result.verdict):
                    break
        except RunEnds as end:
            self._runner.end_with(stage.name, end, met_hidden=self._has_met_hidden)
            return False
        self._runner.end_of(stage, worst)
        return worst is None

    @property
    def _has_met_hidden(self) -> bool:
        return self._session is not None and self._session.has_met_hidden

    def _results(self, stage: Stage) -> Iterator[CaseResult]:
        """Yield the result of each case of a stage as it finishes."""
        assert self._bench is not None
        if self._session is not None:
            runs = self._runs(stage)
            if (yield from self._session.results(stage, runs, self._judging())):
                return
        yield from self._called(stage)

    def _judging(self) -> Judging:
        from kernelcup_harness.judge.replay.stage import Judging

        assert self._bench is not None
        return Judging(
            attempt=self._attempt,
            accepted=lambda run: self._result(run, Verdict.ACCEPTED, Reason.NONE, ""),
            progress=self._runner.progress,
            dismiss=lambda: self._runner.dismiss(self._channels),
            look=self._bench.watch.look,
            note=self._bench.note,
            finish=self._bench.finish,
        )

    def _runs(self, stage: Stage) -> list[CaseRun]:
        """Return the runs of a stage's cases, with no call made yet."""
        assert self._bench is not None
        rules, known = self._spec.rules, [] if stage.replayed is not None else self._reference_s
        budgets = budgets_s(rules, len(stage.cases), known, stage.limit_s)
        settles = self._bench.watch.gpu and stage.name is StageName.RANKED
        runs = [
            CaseRun(case, stage, rules, budget_s, self._chance, settles=settles)
            for case, budget_s in zip(stage.cases, budgets, strict=True)
        ]
        for run in runs:
            run.twins_allowed &= self._spec.near_twins
            run.noise_share = self._spec.device.noise_share if self._spec.device is not None else 0.0
        return runs

    def _called(self, stage: Stage) -> Iterator[CaseResult]:
        """Call the cases of a stage, in turns if they are timed, and yield each result as its case finishes."""
        assert self._bench is not None
        bench = self._bench
        bench.begin(stage)
        finishes = bench.finishes(stage)
        runs = self._runs(stage)
        calls = {run.case.index: self._calls_of(stage, run.case) for run in runs}
        for run in runs:
            run.overhead_ns = bench.overhead_ns(stage, run.case, calls[run.case.index])
        with bench.watch.phase(f"{stage.name.value}/calls" if stage.timed else stage.name.value):
            for run in turns(runs, shuffled=stage.timed, chance=self._chance):
                result = self._step(stage, run, calls[run.case.index])
                if result is None and run.finished and not finishes:
                    result = self._result(run, Verdict.ACCEPTED, Reason.NONE, "")
                if result is not None:
                    yield result
        if finishes:
            yield from self._finished(stage, runs)

    def _finished(self, stage: Stage, runs: list[CaseRun]) -> Iterator[CaseResult]:
        """Note the ranked times, and yield the results."""
        assert self._bench is not None
        bench = self._bench
        finding = self._session.finding if self._session is not None else None
        if self._spec.rival is not None:
            from kernelcup_harness.judge.replay.rival import BY_WALL_CLOCK, not_held

            self._runner.tell(Dueled(duel=not_held(BY_WALL_CLOCK)))

        def finish() -> None:
            for run in runs:
                bench.note_called(run, [finding])
            bench.finish(stage, runs)

        failed = self._attempt(stage, runs[0], finish) if runs else None
        results = [self._result(run, Verdict.ACCEPTED, Reason.NONE, "") for run in runs]
        yield from [failed] if failed is not None else results

    def _step(self, stage: Stage, run: CaseRun, calls: Calls) -> CaseResult | None:
        """Make one call and check its answer. Return the case's result if it has failed."""
        sample, counts = run.next_sample()
        run.current = sample
        failed = self._attempt(stage, run, lambda: self._sample(stage, run, calls, sample, counts=counts))
        if failed is None:
            self._runner.progress(stage, run)
        return failed

    def _attempt(self, stage: Stage, run: CaseRun | None, work: Callable[[], None]) -> CaseResult | None:
        """Do ``work``, which talks to the contestants. Return the case's result if it fails."""
        from kernelcup_harness.judge.answers import CallFailed
        from kernelcup_harness.judge.checks import Wrong

        try:
            work()
        except Wrong as wrong:
            assert run is not None
            run.failed_on, fault = wrong.sample, wrong.fault
            return self._result(run, Verdict.WRONG_ANSWER, fault.reason, fault.text, fault.mismatch)
        except CallFailed as failure:
            assert run is not None
            run.failed_on = run.current
            line = verdicts.line_in(failure.text, self._spec)
            return self._result(run, *FAILURES[failure.kind], failure.text, line=line)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            waited_s = sum(self._callers[role].waited_s for role in self._submissions)
            waited_s += self._session.waited_s if self._session is not None else 0.0
            raise verdicts.of_channel(error, stage, waited_s, run) from error
        except Exception as error:
            ends = verdicts.of_others(error, self._reservation)
            if ends is None:
                raise
            ends.role = ends.role if run is None else run.case.role
            raise ends from error
        if run is not None and (text := run.lacks_samples):
            return self._result(run, Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, text)
        return None

    def _sample(self, stage: Stage, run: CaseRun, calls: Calls, sample: SampleName, *, counts: bool) -> None:
        """Call the contestant once and check what it returned. Raise ``Wrong``."""
        from kernelcup_harness.judge.checks import Wrong

        assert self._bench is not None
        began = time.monotonic()
        checks, profiled = self._checks, stage.name is StageName.PROFILE
        place = checks.place(stage.name, run.case)
        if sample.twin and not checks.has_twins(place):
            run.twins_allowed, sample = False, SampleName(input=sample.input)
            run.current = sample
        data, form = checks.make_input(place, sample), checks.form(place)
        answer = calls.open(calls.timed(data, form, timeout_s=self._remaining(), profile=profiled))
        clock, slowed_down = self._bench.watch.look() if counts and stage.timed else (None, False)
        fault = checks.fault(place, sample, data, answer) if not profiled else None
        spent_s = time.monotonic() - began
        run.add(answer, counts=counts, spent_s=spent_s, clock_mhz=clock, slowed_down=slowed_down)
        if fault is not None:
            raise Wrong(sample, fault)

    def _result(
        self,
        run: CaseRun,
        verdict: Verdict,
        reason: Reason,
        message: str,
        mismatch: Mismatch | None = None,
        line: int | None = None,
    ) -> CaseResult:
        return case_result(
            run, verdict, reason, message, mismatch, line, met_hidden=run.case.hidden or self._has_met_hidden
        )

    def _remaining(self) -> float:
        return max(0.0, self._deadline - time.monotonic())
