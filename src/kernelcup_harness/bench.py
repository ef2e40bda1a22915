"""All measurements beside the contestant's claims: calibration, audits, duels, the device's state."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kernelcup_harness import (
    audits,
    calibration,
    masks,
    nvml,
    physics,
    references,
    schedule,
    timing,
    walls,
    wire,
)
from kernelcup_harness.answers import CallFailed
from kernelcup_harness.calls import Caller
from kernelcup_harness.checks import Checks, Place
from kernelcup_harness.duel import (
    MEMORY,
    NEXT_INPUTS,
    NO_TIME,
    Duel,
    Fought,
    NotHeld,
    NoTime,
    RivalFailed,
    result,
)
from kernelcup_harness.endings import RunEnds
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.measure import Auditor, Device, Wrong
from kernelcup_harness.protocol import (
    Audit,
    Backend,
    Calibration,
    DuelResult,
    Finding,
    JobSpec,
    Mode,
    Reason,
    SampleName,
    StageName,
    Verdict,
    Work,
    to_json,
)
from kernelcup_harness.schedule import CaseRun, PlannedCase, Stage, needs_trusted
from kernelcup_harness.task_code import TaskFault
from kernelcup_harness.trusted import Trusted, TrustedFailed

ROUNDS = 24
"""Most samples of each kind in the calibration before the stage; half as many after."""
ROUNDS_ON_HOST = 10
REFERENCE_SHARE = 0.03
"""Share of the time for a stage that the references of all cases may take."""
LOOK_EVERY_S = 0.025
"""The driver answers slowly, and its figures do not change from one call to the next."""
TIMED = (Mode.BENCHMARK, Mode.LEADERBOARD)
HELLO_S = 120.0
CLOCK_S = 30.0
EMPTY_CALLS, UNCOUNTED_EMPTY = 40, 8
"""Empty kernels timed in a process before its import, and uncounted ones before these."""
DUEL_AUDIT_S = 0.4
"""Time for the audit of one case of a duel."""
FIRST_AUDITED = 1 << 21
"""Input numbers from here on are reserved for duel audits."""
NAMES = {
    "submission": "submission",
    "rival": "rival",
    "second": "submission's second process",
    "second_rival": "rival's second process",
}
PAIRS = (("submission", "rival"), ("second", "second_rival"))
"""The pairs of a duel: roles of :mod:`kernelcup_harness.crew`."""
NOOPS_S = 1.5
"""Time for no-ops before the import: with slow tasks or large inputs, later cases get none."""


@dataclass(slots=True)
class Watch:
    """The state of the device, and where the time goes."""

    gpu: bool
    gauge: nvml.Gauge
    phases: dict[str, float] = field(default_factory=dict)
    seen: tuple[float | None, bool] = (None, False)
    looked: float = -math.inf

    def look(self) -> tuple[float | None, bool]:
        """Return the clock in MHz, and whether the device is slowed down: now, or a few calls ago."""
        if time.monotonic() - self.looked >= LOOK_EVERY_S:
            self.seen = self.gauge.clock_mhz(), self.gauge.is_slowed_down()
            self.looked = time.monotonic()
        return self.seen

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of this context towards a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - began


class Bench:
    """Measures for one job.

    Args:
        spec: The job.
        checks: Makes inputs and checks answers.
        callers: To each contestant by role.
        channels: The same contestants' channels, still unused.
        chance: Random numbers from the run's secret.
        tell: Takes events for the runner.
        remaining: Returns the seconds left of the current stage.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        checks: Checks,
        callers: Mapping[str, Caller],
        channels: Mapping[str, Channel],
        chance: random.Random,
        tell: Callable[[dict[str, Any]], None],
        remaining: Callable[[], float],
    ) -> None:
        self._spec = spec
        self._checks = checks
        self._callers = callers
        self._channels = channels
        self._tell = tell
        self._remaining = remaining
        gpu = masks.on_gpu()
        self.watch = Watch(gpu, nvml.gauge(gpu=gpu and spec.mode in TIMED))
        # A calibrated machine without this figure has tried the profiler in vain.
        known = spec.device.empty_kernel_ns if spec.device is not None else None
        self._trusted = (
            Trusted(callers["trusted"], channels["trusted"], gpu=gpu, empty_kernel_ns=known)
            if "trusted" in callers
            else None
        )
        self._chance = chance
        self.by_wall = schedule.by_wall_clock(spec)
        """Whether times are taken by the judge's wall clock."""
        self._overheads = walls.Overheads(checks, callers["submission"])
        self._auditor: Auditor | None = None
        self._processes: int | None = None
        self._canary_ns = 0.0
        self._own_empty_ns: dict[str, list[float]] = {}
        self._noops_before: dict[int, list[float]] = {}
        self._is_calibrated = False
        self.dueling: CaseRun | None = None
        """The current case of a duel, or the one that has failed."""
        self.offset_ns = 0.0
        """Measured offset of an empty kernel."""
        self.more_findings: list[Finding] = []
        """Further findings for each audited case."""

    @property
    def calibrates(self) -> bool:
        """Whether this job needs the trusted contestant."""
        return self._trusted is not None and needs_trusted(self._spec)

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase."""
        audited = self._auditor.phases if self._auditor is not None else {}
        return self.watch.phases | {f"{StageName.RANKED.value}/{name}": s for name, s in audited.items()}

    def before_load(self, stages: Sequence[Stage]) -> None:
        """Measure everything that precedes code of a submission. Raise ``RunEnds`` if the device is not fit."""
        if self._spec.replay is not None:
            return
        if self._spec.mode is Mode.LEADERBOARD and self._spec.backend is not Backend.EMULATED:
            with self.watch.phase("canary"):
                self._take_canary()
        if self.by_wall and self._spec.mode in TIMED:
            with self.watch.phase("overheads"), failing_machine():
                self._overheads.measure(stages)
        if not self.calibrates:
            return
        assert self._trusted is not None
        with failing_machine():
            # This may take seconds: the submission is imported and tested meanwhile.
            self._trusted.begin()
        if self.watch.gpu:
            # In all processes, before code of a submission runs in any of them.
            for role in self._callers:
                if role != "trusted":
                    self._own_empty_ns[role] = self._empty_calls(role, EMPTY_CALLS, UNCOUNTED_EMPTY)
        if not self._trusted.is_profiling:
            with self.watch.phase("calibration"), failing_machine():
                self._trusted.calibrate(self._rounds, strict=True)
                self._is_calibrated = True
            if self._trusted.arms:
                with self.watch.phase("no-ops"), failing_machine():
                    self._noops_before = self._measured_noops(stages)
                    self._trusted.forget()

    def _empty_calls(self, role: str, count: int, uncounted: int) -> list[float]:
        """Have a contestant time empty kernels before its import. Raise ``RunEnds``."""
        try:
            return empty_calls_ns(self._channels[role], count, uncounted)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            text = f"the contestant's clock could not be measured: {error or type(error).__name__}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text) from error

    @property
    def _rounds(self) -> int:
        return ROUNDS if self.watch.gpu else ROUNDS_ON_HOST

    def _measured_noops(self, stages: Sequence[Stage]) -> dict[int, list[float]]:
        """Return the times of armed no-op calls, by the index of the case."""
        from torch import OutOfMemoryError

        assert self._trusted is not None
        found: dict[int, list[float]] = {}
        began = time.monotonic()
        wanted = [case for stage in stages if self.audits(stage) for case in stage.cases]
        for number, case in enumerate(wanted, start=1):
            if time.monotonic() > began + NOOPS_S:
                break
            place = self._checks.place(StageName.RANKED, case)
            # A failure of the task or a lack of memory is reported when the case itself is called.
            with suppress(TaskFault, wire.CannotCarry, OutOfMemoryError):
                data, form = self._checks.make_input(place, SampleName(input=0)), self._checks.form(place)
                found[case.index] = self._trusted.noops_before(
                    data,
                    form,
                    lambda: self._empty_calls("submission", 1, 0),
                    until=began + NOOPS_S * number / len(wanted),
                )
        return found

    def _take_canary(self) -> None:
        try:
            check = calibration.check_canary(self._spec.backend, self._spec.device)
        except RuntimeError as error:
            text = f"the device could not be examined before the job: {error}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text[:2000]) from error
        self._canary_ns = check.canary_ns
        self._tell({"event": "calibration", "calibration": to_json(Calibration(canary_ns=check.canary_ns))})
        if not check.fits and self.watch.gpu:
            text = (
                f"the device was not as usual before the job: its canary took {check.canary_ns / 1e3:.1f} us"
            )
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text)

    def audits(self, stage: Stage) -> bool:
        """Return whether the times of a stage are compared with the judge's clock."""
        return stage.name is StageName.RANKED and self.calibrates

    def finishes(self, stage: Stage) -> bool:
        """Return whether a stage needs more work after all its calls: true for ranked times."""
        if stage.name is not StageName.RANKED or self._spec.replay is not None:
            return False
        return self.by_wall or self.calibrates

    def begin(self, stage: Stage) -> None:
        """Prepare for a stage that is timed by a GPU.

        On a machine without a calibration the profiler has run until now, so this job calibrates here.
        """
        if self._trusted is None or not stage.timed or not self.calibrates:
            return
        if not self._is_calibrated:
            with self.watch.phase("calibration"):
                self._trusted.calibrate(self._rounds)
        self._processes = self.watch.gauge.processes()
        self.offset_ns = self._offset_ns("submission")
        self._auditor = self._auditor_of("submission")

    def _offset_ns(self, role: str) -> float:
        """Return the event time of an empty kernel in a contestant's process beyond its time on the device."""
        if self._trusted is None or self.by_wall:
            return 0.0
        return self._trusted.offset_in(self._own_empty_ns.get(role, []))

    def _auditor_of(self, role: str) -> Auditor:
        assert self._trusted is not None
        return Auditor(
            checks=self._checks,
            caller=self._callers[role],
            trusted=self._trusted,
            chance=self._chance,
            remaining=self._remaining,
            device=Device.of(gpu=self.watch.gpu),
            noops_before=self._noops_before,
        )

    def overhead_ns(self, stage: Stage, case: PlannedCase) -> float | None:
        """Return the overhead in each sample of a case, None if it is not known."""
        return self._overheads.of(stage, case)

    def largest_first(self, stage: Stage, runs: Sequence[CaseRun]) -> list[CaseRun]:
        """Return the cases in the order of their audits: smaller ones reuse the memory of larger ones."""

        def nbytes(run: CaseRun) -> int:
            form = self._checks.form(self._checks.place(stage.name, run.case))
            return form.nbytes if form is not None else 0

        return sorted(runs, key=nbytes, reverse=True)

    def audit(
        self, stage: Stage, run: CaseRun, budget_s: float, left_s: Callable[[], float] = lambda: math.inf
    ) -> None:
        """Compare a case's claim with the judge's clock, twice if they differ at first.

        ``budget_s`` is for one measurement; ``left_s`` returns the seconds until measurements stop.
        """
        if self.by_wall:
            audit = walls.audit_of(run)
            run.audit = audits.with_findings(audit, [self._floor(run, audit.score_ns), *self.more_findings])
            return
        assert self._auditor is not None
        claims = run.timing()
        assert claims is not None
        place = self._checks.place(stage.name, run.case)
        if left_s() <= 0:
            audit = audits.without_time(claims.claim_ns, claims.wall_ns)
        else:
            audit = self._audited(self._auditor, run, place, claims.claim_ns, budget_s, left_s, self._note)
        if self.watch.gpu:
            audit = audits.at_least(audit, self._empty_floor_ns())
        slow = audits.throttled(len(claims.samples_ns), len(claims.discarded_ns))
        audit = audits.with_findings(audit, [self._floor(run, audit.score_ns), slow, *self.more_findings])
        run.audit = audits.if_known(replace(claims, audit=audit), audit, self._spec.backend)
        self._note(run.audit)

    def note_replayed(self, run: CaseRun, audit: Audit) -> None:
        """Note the time of a case whose calls were replayed, and compare it with the physics floor."""
        claims = run.timing()
        assert claims is not None
        slow = audits.throttled(len(claims.samples_ns), len(claims.discarded_ns))
        audit = audits.with_findings(audit, [self._floor(run, audit.score_ns), slow])
        run.audit = audits.if_known(replace(claims, audit=audit), audit, self._spec.backend)
        self._note(run.audit)

    def finish_replayed(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        """Time the references and report the state of the device, after the contestants have ended."""
        if self._trusted is not None:
            with self.watch.phase(f"{stage.name.value}/reference"):
                self._time_references(stage, runs)
        gauge = self.watch.gauge
        found = Calibration(
            canary_ns=self._canary_ns,
            sm_clock_mhz=gauge.clock_mhz(),
            temperature_c=gauge.temperature_c(),
            device_name=device_name(gpu=self.watch.gpu),
        )
        self._tell({"event": "calibration", "calibration": to_json(found)})

    def _note(self, audit: Audit) -> None:
        """Send findings that hold a run back at once: the run may end before its cases are reported."""
        for finding in audit.findings:
            if finding.quarantines:
                self._tell({"event": "finding", "finding": to_json(finding)})

    def finish(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        """Calibrate again, run the duel if there is one, and report the results."""
        if self._spec.rival is not None:
            with self.watch.phase("duel"):
                self._tell({"event": "duel", "duel": to_json(self._duel(stage, runs))})
        with self.watch.phase(f"{stage.name.value}/reference"):
            self._time_references(stage, runs)
        measured = Calibration()
        if self._trusted is not None and self.calibrates:
            with self.watch.phase("calibration"):
                self._trusted.calibrate(self._rounds // 2)
            self._add_busy(runs)
            measured = self._trusted.calibration()
        gauge = self.watch.gauge
        found = replace(
            measured,
            offset_ns=self.offset_ns,
            own_empty_ns=self._own_empty_ns.get("submission", []),
            canary_ns=self._canary_ns,
            sm_clock_mhz=gauge.clock_mhz(),
            temperature_c=gauge.temperature_c(),
            device_name=device_name(gpu=self.watch.gpu),
        )
        self._tell({"event": "calibration", "calibration": to_json(found)})

    def _time_references(self, stage: Stage, runs: Sequence[CaseRun]) -> None:
        clock: timing.Clock = timing.CudaClock() if self.watch.gpu else timing.HostClock()
        offset_ns = self._trusted.offset_ns if self._trusted is not None and self.calibrates else 0.0
        stopwatch = references.Stopwatch(self._checks, clock, offset_ns=offset_ns)
        budget_s = REFERENCE_SHARE * self._spec.rules.stage_budget_s / len(runs)
        for run in runs:
            found_ns = stopwatch.median_ns(self._checks.place(stage.name, run.case), budget_s)
            # By the wall clock, the overhead of a call is part of all compared times.
            run.reference_ns = None if found_ns is None else found_ns + (run.overhead_ns or 0.0)

    def _empty_floor_ns(self) -> float:
        """Return the time of an empty kernel by the same clock: shorter times cannot be distinguished."""
        assert self._trusted is not None
        return max(0.0, self._trusted.empty_kernel_ns - self._trusted.offset_ns)

    def _floor(self, run: CaseRun, score_ns: float) -> Finding | None:
        run.work = work_of(self._spec, run)
        if run.work is None or self._spec.device is None:
            return None
        run.floor_ns = physics.floor_ns(run.work, self._spec.device)
        return physics.finding(run.work, self._spec.device, score_ns)

    def _add_busy(self, runs: Sequence[CaseRun]) -> None:
        counts = [self._processes, self.watch.gauge.processes()]
        most = max((count for count in counts if count is not None), default=None)
        busy = audits.busy_device(most, 1 + len(self._callers))
        for run in runs:
            if run.audit is not None:
                run.audit = audits.with_findings(run.audit, [busy])

    def _duel(self, stage: Stage, runs: Sequence[CaseRun]) -> DuelResult:
        """Run the duel of each pair of processes, and audit each pair while no other calls are due."""
        from torch import OutOfMemoryError

        pairs = [pair for pair in PAIRS if all(role in self._callers for role in pair)]
        budget_s = self._spec.rules.stage_budget_s / max(1, len(pairs))
        fights: list[Fought] = []
        try:
            for number, pair in enumerate(pairs):
                began = time.monotonic()
                if fights:
                    self._forget(pairs[number - 1])
                fights.append(self._fight(stage, runs, pair, number, budget_s))
                if self._remaining() < 2 * (time.monotonic() - began):
                    break
            found = result(fights, self._spec.rival_error)
        except RivalFailed as failure:
            found = DuelResult(verdict="", rival_message=str(failure)[:2000])
        except NoTime as reason:
            # One pair is less precise, but not different.
            found = result(fights, self._spec.rival_error) if fights else not_held(reason)
        except (NotHeld, OutOfMemoryError) as reason:
            found = not_held(reason)
        self.dueling = None
        return found

    def _fight(
        self, stage: Stage, runs: Sequence[CaseRun], pair: tuple[str, str], number: int, budget_s: float
    ) -> Fought:
        """Measure one pair of processes. Raise :class:`RivalFailed`, :class:`NotHeld`, or the submission's failure."""
        places = [self._checks.place(stage.name, run.case) for run in runs]

        def note(index: int) -> None:
            self.dueling = runs[index]

        mine, other = pair
        if mine != "submission":
            self._load(mine, self._spec.submission_name)
        self._load(other, self._spec.rival_name)
        duel = Duel(
            self._checks,
            (self._callers[mine], self._callers[other]),
            offsets_ns=(self._offset_ns(mine), self._offset_ns(other)),
            remaining=self._remaining,
            number=number,
            names=(NAMES[mine], NAMES[other]),
            at=note,
            by_wall=self.by_wall,
        )
        fought = duel.fight(places, budget_s)
        if self.by_wall:
            return fought
        chosen = self._chance.randrange(len(runs))
        note(chosen)
        for who, role in ((1, other), (0, mine)):
            self._audit_duel(stage, runs[chosen], role, number, fought.claims_ns(who)[chosen])
        return fought

    def _forget(self, pair: tuple[str, str]) -> None:
        """Have both free the memory of their inputs, which the next pair needs."""
        try:
            for role in pair:
                self._callers[role].forget(timeout_s=self._remaining())
        except (CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            raise NotHeld(f"the {NAMES[role]}: {error or type(error).__name__}") from error

    def load_rival(self) -> None:
        """Have the rival imported. Raise :class:`RivalFailed` or :class:`NotHeld`."""
        self._load("rival", self._spec.rival_name)

    def _load(self, role: str, file: str) -> None:
        """Have a file imported in a fresh process. Raise :class:`RivalFailed` or :class:`NotHeld`.

        It is not the rival's fault if there is less time than an import may take. Neither side is to blame if the
        submission can be imported only once.
        """
        limit_s = min(self._spec.limits.import_s, self._remaining())
        try:
            load(self._channels[role], file, limit_s)
        except RivalFailed as failure:
            if self._remaining() <= 0:
                raise NoTime(NO_TIME) from failure
            if role == "second":
                raise NotHeld(f"the {NAMES[role]}: {failure}") from failure
            raise

    def _audit_duel(self, stage: Stage, run: CaseRun, role: str, number: int, claim_ns: float) -> None:
        """Compare one side's claim of a case with the judge's clock. Raise :class:`NotHeld`.

        A disagreement cannot be attributed: each side can disturb the other.
        """
        own = CaseRun(run.case, stage, self._spec.rules, 0.0, self._chance)
        own.skip_inputs(FIRST_AUDITED + number * NEXT_INPUTS)
        place = self._checks.place(stage.name, run.case)
        try:
            audit = self._audited(self._auditor_of(role), own, place, claim_ns)
        except TrustedFailed as error:
            raise NotHeld(str(error)) from error
        except (Wrong, CallFailed, ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            if isinstance(error, ChannelTimeout) and self._remaining() <= 0:
                raise NoTime(NO_TIME) from error
            if role == "submission" or (role == "second" and isinstance(error, Wrong)):
                raise
            raise NotHeld(str(error) or type(error).__name__) from error
        found = [
            each.text for each in audit.findings if each.quarantines or audits.is_disagreement(each, audit)
        ]
        if found:
            raise NotHeld(f"the times of the {NAMES[role]} in the duel are not the judge's: {found[0]}")

    def _audited(
        self,
        auditor: Auditor,
        run: CaseRun,
        place: Place,
        claim_ns: float,
        budget_s: float = DUEL_AUDIT_S,
        left_s: Callable[[], float] = lambda: math.inf,
        note: Callable[[Audit], None] = lambda _audit: None,
    ) -> Audit:
        """Measure a case, twice if the judge's clock and the claim differ at first and there is time."""
        began = time.monotonic()
        rounds = [auditor.evidence(run, place, claim_ns, budget_s)]
        note(audits.decide(rounds, self._spec.backend))
        if rounds[0].is_in_doubt and left_s() > time.monotonic() - began:
            rounds.append(auditor.evidence(run, place, claim_ns, budget_s, cooled=True))
        return audits.decide(rounds, self._spec.backend)


def not_held(reason: Exception) -> DuelResult:
    """Return the outcome of a duel that neither side has won or lost."""
    return DuelResult(verdict="not_held", rival_message=str(reason)[:2000])


@contextmanager
def failing_machine() -> Iterator[None]:
    """End the run if a process of the harness fails."""
    try:
        yield
    except (TrustedFailed, walls.MachineFailed) as error:
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, str(error)) from error


@contextmanager
def theirs(what: str) -> Iterator[None]:
    """Raise failures of the channel as :class:`RivalFailed`."""
    try:
        yield
    except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
        raise RivalFailed(f"{what}: {error or type(error).__name__}") from error


def empty_calls_ns(
    channel: Channel, count: int = EMPTY_CALLS, uncounted: int = UNCOUNTED_EMPTY
) -> list[float]:
    """Return the times of empty kernels in a contestant's process before its import.

    Raise what the channel raises.
    """
    channel.send({"type": "clock", "calls": uncounted + count, "arenas": []}, timeout_s=CLOCK_S)
    found = channel.receive(CLOCK_S).get("ns")
    if not isinstance(found, list) or not all(wire.is_finite_number(ns) for ns in found):
        raise BrokenProtocol("a contestant that does not report its clock")
    return [float(ns) for ns in found[uncounted:]]


def hello(channel: Channel) -> None:
    """Wait for a contestant's hello, which comes once."""
    if channel.has_greeted:
        return
    frame = channel.receive(HELLO_S)
    if frame.get("type") != "hello":
        raise BrokenProtocol("a contestant that does not send hello")
    channel.has_greeted = True


def load(channel: Channel, file: str, timeout_s: float) -> None:
    """Have a rival imported. Raise :class:`RivalFailed`, or :class:`NotHeld` for lack of memory."""
    with theirs("it could not be imported"):
        hello(channel)
        channel.send({"type": "load", "file": file}, timeout_s=timeout_s)
        frame = channel.receive(timeout_s)
    if frame.get("type") == "fail" and frame.get("kind") in MEMORY:
        raise NotHeld("there was not enough memory to import it beside the other")
    if frame.get("type") != "ready":
        raise RivalFailed(f"it could not be imported: {str(frame.get('text'))[:1000]}")


def work_of(spec: JobSpec, run: CaseRun) -> Work | None:
    """Return the work that the task declares for a case of the benchmarks."""
    declared = spec.hidden_work if run.case.hidden else spec.work
    place = run.case.index - (len(spec.benchmarks) if run.case.hidden else 0)
    return declared[place] if 0 <= place < len(declared) else None


def device_name(*, gpu: bool) -> str:
    """Return the name of the device, empty for the processor."""
    if not gpu:
        return ""
    import torch

    return str(torch.cuda.get_device_name(0))
