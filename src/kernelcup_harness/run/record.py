"""Collects the results of a run. Nothing received is lost when the run is cut off."""

from __future__ import annotations

import base64
import dataclasses
import signal
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernelcup_harness.build.step import Built, Ending
from kernelcup_harness.core.plan import meets_hidden
from kernelcup_harness.doubt import findings
from kernelcup_harness.isolation.origins import Origins
from kernelcup_harness.isolation.processes import CHANNEL_LOST, Child
from kernelcup_harness.protocol import (
    LONGEST_MESSAGE,
    Backend,
    BinaryUse,
    Calibration,
    CapturedOutput,
    CaseResult,
    Counters,
    DuelResult,
    Finding,
    HarnessKind,
    JobSpec,
    KeptFile,
    Limits,
    RanKernel,
    Reason,
    RunReport,
    StageName,
    StageReport,
    Verdict,
    for_participants,
)
from kernelcup_harness.wire.job_messages import Binary, BinaryRefused, Calibrated, Dueled, MachineFacts, Ran
from kernelcup_harness.wire.messages import (
    CaseEnds,
    Found,
    Message,
    Phases,
    SampleTaken,
    StageBegins,
    StageEnds,
)


@dataclass(slots=True)
class OpenStage:
    """A stage that is in progress."""

    name: StageName
    limit_s: float
    planned: int
    began: float = field(default_factory=time.monotonic)
    cases: list[CaseResult] = field(default_factory=list)
    place: int | None = None
    """Where the report of its public cases is, if it goes on with the hidden ones."""


class Record:
    """Collects events into stages and passes them on to ``on_event``."""

    def __init__(self, spec: JobSpec, commitment: str, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._spec = spec
        self._commitment = commitment
        self._on_event = on_event
        self.stages: list[StageReport] = []
        self._open: OpenStage | None = None
        self.environment: dict[str, Any] = {"backend": spec.backend.value}
        self.extra: dict[str, str] = {}
        self.stdout = CapturedOutput()
        self.stderr = CapturedOutput()
        self.exit_code: int | None = None
        self.calibration: Calibration | None = None
        self.duel: DuelResult | None = None
        self.counters: Counters | None = None
        self.ran: list[Ran] = []
        """The kernels of replayed calls, those of hidden cases among them."""
        self.binary = Binary()
        """What the timer has replayed of public cases, packed, and the memory that it reads."""
        self.refused: BinaryRefused | None = None
        """Set if a kept binary cannot be replayed: the job has to be judged again, without it."""
        self.binaries: list[BinaryUse] = []
        self.beside: Finding | None = None
        """A finding for each ranked case."""
        self.files: list[KeptFile] = []
        self.origins: Origins | None = None
        """Whose kernels they are, None if this machine cannot say it, for :attr:`no_origins`."""
        self.no_origins = ""
        self.found: list[Finding] = []
        """Findings of audits that hold the run back, however it ends."""
        self.late: set[StageName] = set()
        """The stages whose time was up, whoever is to blame for it."""
        self.phases: dict[str, float] = {}
        """Seconds by phase. Parallel phases overlap."""

    def again(self, spec: JobSpec) -> Record:
        """Return an empty record for the same job, judged again on the same machine."""
        made = Record(spec, self._commitment, self._on_event)
        made.environment = dict(self.environment)
        made.origins, made.no_origins = self.origins, self.no_origins
        return made

    @property
    def is_good(self) -> bool:
        """Whether all stages so far were accepted."""
        return bool(self.stages) and all(each.verdict is Verdict.ACCEPTED for each in self.stages)

    @property
    def stage(self) -> StageName:
        """The current stage, or the import if there is none."""
        return self._open.name if self._open is not None else StageName.IMPORT

    def take(self, message: Message) -> None:
        """Record one message of the judge."""
        match message:
            case MachineFacts():
                self.environment |= message.environment
            case StageBegins():
                self.begin(message.name, message.limit_s, message.cases, message.total)
            case CaseEnds():
                self.case(message.case)
            case StageEnds():
                self.late |= {message.name} if message.used_s is not None else set()
                self.end(message.verdict, message.reason, message.message, met_hidden=message.met_hidden)
            case SampleTaken():
                told = {"stage": message.stage.value, "case": message.case, "samples": message.samples}
                self._on_event({"event": "sample", **told})
            case _:
                self._take_beside(message)

    def _take_beside(self, message: Message) -> None:
        """Record what belongs to no stage."""
        match message:
            case Phases():
                self.phases |= message.phases
            case Calibrated():
                self.calibration = message.calibration
            case Dueled():
                self.duel = message.duel
            case Ran():
                self.ran.append(message)
            case Binary():
                self.binary = message
            case BinaryRefused():
                self.refused = message
            case Found():
                self.found.append(message.finding)

    def build(self, built: Built) -> None:
        """Record a build in the import stage. Only a build that is too large ends the stage."""
        self.environment["build"] = built.how
        if built.too_much is not None:
            self.stdout, self.stderr = built.printed()
            self.end(*built.too_much)

    def begin(self, name: StageName, limit_s: float, planned: int, total: int = 0) -> None:
        """Start a stage, restart the current one, or go on with one whose public cases were accepted.

        The time of a stage that goes on continues; ``planned`` cases follow now, of ``total`` in all.
        """
        before, self._open = self._open, OpenStage(name, limit_s, max(planned, total))
        if before is not None and before.name is name:
            self._open.began = before.began
        for place, earlier in enumerate(self.stages):
            if earlier.name is name:
                self._open.began -= earlier.duration_s
                self._open.cases, self._open.place = list(earlier.cases), place
                self._open.planned = earlier.planned_cases
        done = len(self._open.cases)
        told = {"stage": name.value, "limit_s": limit_s, "cases": done + planned}
        self._on_event({"event": "stage", **told, **({"done": done} if done else {})})

    def plan_fewer(self, cases: int) -> None:
        """Correct the number of cases of the current stage."""
        assert self._open is not None
        self._open.planned -= cases

    def case(self, result: CaseResult) -> None:
        """Add the result of a case to the current stage."""
        assert self._open is not None
        timing, judge = result.timing, result.judge and self._told(result.judge)
        result = dataclasses.replace(result, message=self._told(result.message), judge=judge)
        if self.beside is not None and timing is not None and timing.audit is not None:
            audit = dataclasses.replace(timing.audit, findings=[*timing.audit.findings, self.beside])
            result = dataclasses.replace(result, timing=dataclasses.replace(timing, audit=audit))
        self._open.cases.append(result)
        told = {"event": "case", "stage": self._open.name.value, "case": result.index}
        score = result.timing.score_ns if result.timing is not None else None
        self._on_event({**told, "verdict": result.verdict.value, "hidden": result.hidden, "score_ns": score})

    def end(self, verdict: Verdict, reason: Reason, message: str, *, met_hidden: bool = False) -> None:
        """Close the current stage. Its cases are reported in the order of the task.

        A stage with a wrong case ends with it: what follows a wrong answer, or hides it, changes nothing. A task's own
        harness reports an exception as a wrong case, too, so there the end says more.
        """
        assert self._open is not None
        stage, self._open = self._open, None
        wrong = next((case for case in stage.cases if case.verdict is Verdict.WRONG_ANSWER), None)
        is_partial = self._spec.partial and verdict is Verdict.ACCEPTED
        judged = self._spec.harness is HarnessKind.STANDARD and not is_partial
        if judged and wrong is not None and verdict is not Verdict.WRONG_ANSWER:
            verdict, reason, message = wrong.verdict, wrong.reason, wrong.message
            met_hidden = wrong.met_hidden
        report = StageReport(
            name=stage.name,
            verdict=verdict,
            reason=reason,
            message=self._told(message),
            met_hidden=met_hidden,
            duration_s=time.monotonic() - stage.began,
            limit_s=stage.limit_s,
            planned_cases=stage.planned,
            cases=sorted(stage.cases, key=lambda case: case.index),
        )
        if stage.place is None:
            self.stages.append(report)
        else:
            self.stages[stage.place] = report
        told = {"event": "stage_end", "stage": stage.name.value, "verdict": verdict.value}
        self._on_event({**told, "reason": reason.value, "message": report.message[:LONGEST_MESSAGE]})
        if report.message != message:
            sys.stderr.write(f"{message}\n")

    def _told(self, message: str) -> str:
        """Return what participants read of a message; the log keeps the rest."""
        own = self._spec.sources if self._spec.harness is HarnessKind.OWN else ()
        return for_participants(message, own)

    def fail(self, name: StageName, verdict: Verdict, reason: Reason, message: str) -> None:
        """Close the current stage, or ``name``, with a verdict against it."""
        if self._open is None:
            self.begin(name, 0.0, 0)
        # The text may have been written by the judge, which knows all cases.
        self.end(verdict, reason, message, met_hidden=meets_hidden(self._spec))

    def report(self, *, secret: bytes, duration_s: float) -> RunReport:
        """Return the report of the finished run."""
        bad = next((stage for stage in self.stages if stage.verdict is not Verdict.ACCEPTED), None)
        if bad is None and not self.stages:
            self.fail(
                StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.MACHINE, "the run ended before it began"
            )
            bad = self.stages[0]
        ranked = [case for stage in self.stages if stage.name is StageName.RANKED for case in stage.cases]
        timed = ranked if bad else [case for case in ranked if case.verdict is Verdict.ACCEPTED]
        found = [*self.found, *([self._own_share(len(ranked))] if bad is None else [])]
        return RunReport(
            job_id=self._spec.job_id,
            mode=self._spec.mode,
            backend=self._spec.backend,
            harness=self._spec.harness,
            verdict=bad.verdict if bad else Verdict.ACCEPTED,
            stage=bad.name if bad else None,
            reason=bad.reason if bad else Reason.NONE,
            message=bad.message if bad else "",
            stages=self.stages,
            stdout=self.stdout,
            stderr=dataclasses.replace(self.stderr, text=self._told(self.stderr.text)),
            exit_code=self.exit_code,
            duration_s=duration_s,
            comparable=self._spec.backend is not Backend.EMULATED,
            seed_commitment=self._commitment,
            secret_seed=secret.hex(),
            seeds_below=self._spec.seeds_below,
            ran=self.kernels(),
            files=self.files,
            not_kept=self.binary.why if bad is None else "",
            binaries=self.binaries,
            environment=self.environment,
            extra=self.extra,
            phases=self.phases,
            trust=findings.trust_of(timed),
            quarantine=findings.quarantine_of(ranked, reported=list(filter(None, found))),
            calibration=self.calibration,
            duel=self.duel,
            counters=self.counters,
        )

    def kernels(self) -> list[RanKernel]:
        """Return the kernels of a public call, with their shares where they were timed."""
        public = [each for each in self.ran if not each.hidden and each.kernels]
        return self._named(max(public, key=lambda each: each.case is not None, default=Ran(kernels=[])))

    def _named(self, ran: Ran) -> list[RanKernel]:
        """Return kernels with the names of the libraries that they come from."""
        if self.origins is None:
            return ran.kernels
        return [dataclasses.replace(each, origin=self.origins.of(each)) for each in ran.kernels]

    def _own_share(self, cases: int) -> Finding | None:
        """Return why a ranked result does not fulfil the rule about own kernels, None if it does or has none."""
        least = self._spec.own_share
        if least is None or not cases or self._spec.backend is Backend.EMULATED:
            return None
        cut = [each for each in self.ran if each.case is not None]
        room = self.environment.get("clean_room", {})
        # What was said of a hidden case could say what it is.
        why = [room.get("text", "") if room.get("replayed") is False else "", self.no_origins]
        why += [each.why for each in cut if not each.hidden]
        return findings.own_share_finding(
            least, cases, [(self._named(each), each.longer) for each in cut], next(filter(None, why), "")
        )


def unpacked(gz64: str) -> bytes:
    """Return what a judge has packed, nothing of nothing. Raise ``ValueError`` or ``zlib.error`` if it is damaged."""
    return zlib.decompress(base64.b64decode(gz64, validate=True), wbits=31) if gz64 else b""


def standard_error(child: Child) -> CapturedOutput:
    """Return what a process that has ended wrote to standard error; files of the job are named without its folder."""
    assert child.stderr is not None
    output = child.stderr.finish()
    return dataclasses.replace(output, text=output.text.replace(f"{child.folder}/", ""))


def ended(child: Child, limits: Limits, memory_bytes: int, *, timeout_s: float) -> Ending:
    """Return why a process has ended, or has stopped talking."""
    code = child.wait(timeout_s)
    if child.killed_for:
        return reasons(limits, memory_bytes)[child.killed_for[0]]
    if code is None or code == CHANNEL_LOST:
        return Verdict.REJECTED, Reason.CHANNEL_CLOSED, "the submission closed the harness's channel"
    how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    text = f"the submission's process {how}" + ("" if code < 0 else " instead of an answer")
    return Verdict.RUNTIME_ERROR, Reason.KILLED if child.was_killed() else Reason.EXITED, text


def reasons(limits: Limits, memory_bytes: int) -> dict[str, Ending]:
    """Return verdict, reason and text for each reason for which a process is ended."""
    output = f"more than {limits.output_bytes} bytes were printed"
    memory = f"more than {memory_bytes} bytes of host memory were used"
    too_much = Verdict.OUTPUT_LIMIT_EXCEEDED
    return {
        "output": (too_much, Reason.PRINTED, output),
        "memory": (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.HOST_MEMORY, memory),
        "results": (too_much, Reason.OWN_HARNESS, "the result text is too long"),
        "time": (Verdict.TIME_LIMIT_EXCEEDED, Reason.TIME, "the time limit was exceeded"),
        "outside": (Verdict.INTERNAL_ERROR, Reason.KILLED, "the submission's sandbox was killed"),
    }


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
