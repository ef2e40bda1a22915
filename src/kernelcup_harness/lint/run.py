"""A task's lint from spec to report: folder, process, limits. No torch; the process is not trusted.

Its messages go into the report only if they name an existing case.
"""

from __future__ import annotations

import dataclasses
import math
import os
import socket
import time
from itertools import takewhile
from typing import Any

from kernelcup_harness.clocks.budget import AFTERWARDS, CALLS_OF_BUDGET, budgets_s
from kernelcup_harness.device import accelerators
from kernelcup_harness.isolation import job_environment, layout, processes, sandbox
from kernelcup_harness.lint.messages import (
    FROM_LINT,
    MAX_TEXT,
    CasePlace,
    CaseTried,
    Fault,
    LintJob,
    NullAccepted,
    PoorSeeds,
    ReferenceTimed,
)
from kernelcup_harness.protocol import FEWEST_SEEDS, Backend, JobSpec, SandboxPolicy
from kernelcup_harness.protocol.lint import CaseList, LintFinding, LintReport, Null, Severity
from kernelcup_harness.protocol.seeds import MOST_SEEDS
from kernelcup_harness.run import runner
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import End, Message, pack, unpack_any

MAX_EVENT_FRAME = 1 << 20
MOST_EVENTS = 10_000
START_GRACE_S = 120.0
BY_JOBS_ONLY = "a task on several GPUs is tried by jobs only: no wrong answers are given to its checker here"

PROBES = frozenset({Null.WITHIN_RANGE, Null.NARROWER_DTYPE})
"""They count if all cases accept them."""
# Severity of an accepted null. The allowed precision is the author's choice, hence a warning.
SEVERITIES = {null: Severity.WARNING if null is Null.LOWER_PRECISION else Severity.ERROR for null in Null}


def run_lint(spec: JobSpec, *, nulls: bool = True) -> LintReport:
    """Try a task with all cases of ``spec``, within its ``limits.test_s``.

    Large seeds are tried on its inputs and, with ``nulls``, null submissions on its checker; without,
    the checker gets the reference's own answers only.
    """
    if spec.multi_gpu:
        return LintReport(notes=[BY_JOBS_ONLY])
    processes.adopt_orphans()
    gathered = Gathered(spec)
    boxed = spec.sandbox is not SandboxPolicy.NONE and sandbox.is_there()
    if spec.sandbox is SandboxPolicy.REQUIRED and not boxed:
        return LintReport(fault="this job asks for a sandbox and the machine has none")
    with runner.job_folder() as folder:
        try:
            job_environment.write_files(folder / "judge", spec.sources, spec.data)
            ours, theirs = socket.socketpair()
            with theirs:
                child = start(spec, folder, theirs.fileno(), boxed=boxed)
            channel = Channel(ours, max_bytes=MAX_EVENT_FRAME, max_fds=0)
            try:
                fault = follow(spec, channel, child, gathered, nulls=nulls)
            finally:
                processes.kill_tree(child.process.pid)
                child.wait(2.0)
                channel.close()
        finally:
            processes.kill_descendants()
    return gathered.report(fault, too_little_memory="memory" in child.killed_for)


def start(spec: JobSpec, folder: Any, fd: int, *, boxed: bool) -> processes.Child:
    """Start the process, where possible in the judge's sandbox."""
    files = folder / "judge"
    caches = None if boxed else folder / "judge-caches"
    box = layout.Sandbox(
        user_id=layout.JUDGE_ID, files=files, devices=accelerators.of(spec.backend).nodes(os.environ)
    )
    environment = processes.clean_environment(caches, os.environ)
    # Many small steps: threads that wait for each other on a busy machine take longer than one alone.
    environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // 2))
    return processes.start(
        processes.python_argv(
            "kernelcup_harness.lint.main", "main", str(fd), str(sandbox.parent_id() if boxed else os.getpid())
        ),
        cwd=files,
        environment=environment | job_environment.backend_environment(spec.backend),
        fds=[fd],
        keep_output=spec.limits.kept_output_bytes,
        cap_output=runner.JUDGE_OUTPUT_BYTES,
        box=box if boxed else None,
    )


def follow(
    spec: JobSpec, channel: Channel, child: processes.Child, gathered: Gathered, *, nulls: bool = True
) -> str:
    """Take the process's findings until it ends; return why it was cut off, empty if it finished."""
    deadline = time.monotonic() + spec.limits.test_s + START_GRACE_S
    memory_bytes = job_environment.memory_limit(spec)
    try:
        channel.send(pack(LintJob(spec=spec, nulls=nulls)), timeout_s=START_GRACE_S)
        for _ in range(MOST_EVENTS):
            message = next_message(channel, child, deadline, memory_bytes)
            if isinstance(message, End):
                return gathered.fault
            gathered.take(message)
        return "there are too many findings to report"
    except ChannelTimeout:
        return f"trying the null submissions took longer than {spec.limits.test_s:g} s"
    except BrokenProtocol as error:
        return f"the task wrote to the harness's channel: {error}"
    except ChannelClosed:
        return how_it_ended(child, memory_bytes)


def next_message(channel: Channel, child: processes.Child, deadline: float, memory_bytes: int) -> Message:
    """Return the next message, watching memory and time. Raise ``ChannelTimeout`` at the deadline."""
    while time.monotonic() <= deadline:
        try:
            return unpack_any(FROM_LINT, channel.receive(job_environment.WATCH_INTERVAL_S))
        except ChannelTimeout:
            if processes.private_memory(child.process.pid) > memory_bytes:
                child.kill("memory")
    raise ChannelTimeout


def how_it_ended(child: processes.Child, memory_bytes: int) -> str:
    """Return why the process ended before it had finished."""
    code = child.wait(2.0)
    if "memory" in child.killed_for:
        return f"the task's own code used more than {memory_bytes} bytes of memory"
    if "output" in child.killed_for:
        return f"the task's own code printed more than {runner.JUDGE_OUTPUT_BYTES} bytes"
    tail = child.stderr.finish().text[-MAX_TEXT:] if child.stderr is not None else ""
    return f"the process that tries the task ended with code {code}: {tail}".strip()


class Gathered:
    """The findings so far."""

    def __init__(self, spec: JobSpec) -> None:
        self._cases = {name: getattr(spec, name.value) for name in CaseList}
        self._accepted: list[tuple[LintFinding, bool]] = []
        self._asked: dict[Null, int] = {}
        self._tried = 0
        self._notes: list[str] = []
        self._closed: set[tuple[CaseList, int]] = set()
        self._seeds: tuple[int | None, bool, str, bool] = (None, False, "", False)
        self._rules = spec.rules
        self._is_emulated = spec.backend is Backend.EMULATED
        self._parts_s: dict[tuple[CaseList, int], dict[str, float]] = {}
        self._fault_at: tuple[CaseList, int] | None = None
        self.fault = ""

    def take(self, message: Message) -> None:
        """Record one message. Raise :class:`BrokenProtocol` if it is about no case of this task."""
        match message:
            case Fault():
                self.fault = message.text or "the task failed"
                self._fault_at = self._place(message.at) if message.at is not None else None
            case PoorSeeds():
                if not FEWEST_SEEDS <= message.below < MOST_SEEDS:
                    raise BrokenProtocol("an invalid bound of seeds")
                self._seeds = (message.below, message.poor, message.why, message.is_open)
            case ReferenceTimed():
                if not all(0 <= each < math.inf for each in message.parts_s.values()):
                    raise BrokenProtocol("a time that is none")
                self._parts_s[self._place(message.at)] = message.parts_s
            case CaseTried():
                self._take_case(message)
            case NullAccepted():
                self._take_accepted(message)

    def _place(self, at: CasePlace) -> tuple[CaseList, int]:
        if not 0 <= at.index < len(self._cases[at.list]):
            raise BrokenProtocol("a case that does not exist")
        return at.list, at.index

    def _take_case(self, tried: CaseTried) -> None:
        place = self._place(tried.at)
        if place in self._closed:
            raise BrokenProtocol("a case that was reported already")
        self._closed.add(place)
        self._tried += max(0, min(tried.tried, MOST_EVENTS))
        for null in set(tried.asked):
            self._asked[null] = self._asked.get(null, 0) + 1
        self._notes += [f"{place[0].value}.{place[1]}: {note}" for note in tried.notes]

    def _take_accepted(self, accepted: NullAccepted) -> None:
        name, index = self._place(accepted.at)
        finding = LintFinding(
            list=name,
            index=index,
            parameters=self._cases[name][index],
            null=accepted.null,
            how=accepted.how,
            severity=SEVERITIES[accepted.null],
            suggestion=accepted.suggestion,
            part=accepted.part,
        )
        self._accepted.append((finding, accepted.right))

    def report(self, fault: str, *, too_little_memory: bool = False) -> LintReport:
        """Return the report of all findings."""
        findings, notes = [], list(self._notes)
        for finding, right in self._accepted:
            if self._is_exception(finding, right=right):
                how = "is right here" if right else "is within the tolerance here"
                place = f"{finding.list.value}.{finding.index}"
                notes.append(f"{place}: {finding.null.value}: {finding.how}: {how}, other cases refuse it")
            elif finding.null is Null.COPY_OF_INPUT and self._is_identity():
                findings.append(dataclasses.replace(finding, severity=Severity.WARNING))
            else:
                findings.append(finding)
        below, poor, why, is_open = self._seeds
        total, known = self._times()
        reference_s = [sum(each.values()) for each in known]
        stage_s, calls_s = 0.0, dict[str, float]()
        if known and not self._is_emulated:
            stage_s = AFTERWARDS * sum(budgets_s(self._rules, total, reference_s))
            calls_s = {name: CALLS_OF_BUDGET * sum(each[name] for each in known) for name in known[0]}
        return LintReport(
            fault=fault,
            too_little_memory=too_little_memory,
            fault_list=self._fault_at[0] if self._fault_at else None,
            fault_index=self._fault_at[1] if self._fault_at else 0,
            findings=findings,
            tried=self._tried,
            notes=notes,
            seeds_below=below,
            seeds_poor=poor,
            seeds_why=why,
            seeds_open=is_open,
            reference_s=reference_s,
            stage_s=stage_s,
            calls_s=calls_s,
        )

    def _times(self) -> tuple[int, list[dict[str, float]]]:
        """Return the number of timed cases, and the seconds of those before the first that was not measured."""
        places = [
            (name, index)
            for name in (CaseList.BENCHMARKS, CaseList.HIDDEN_BENCHMARKS)
            for index in range(len(self._cases[name]))
        ]
        known = takewhile(self._parts_s.__contains__, places)
        return len(places), [self._parts_s[place] for place in known]

    def _is_identity(self) -> bool:
        """Return whether the reference itself returns its input, in all cases that were tried."""
        copied = {
            (each.list, each.index)
            for each, right in self._accepted
            if right and each.null is Null.COPY_OF_INPUT
        }
        return len(copied) == self._asked.get(Null.COPY_OF_INPUT, 0)

    def _is_exception(self, finding: LintFinding, *, right: bool) -> bool:
        """Return whether a test may accept a null because other cases refuse the same kind.

        A row of one element has only one softmax, and a short sum is good enough in any precision: such
        a test may be there for its edge case. Timed cases get no exception.
        """
        timed = finding.list in (CaseList.BENCHMARKS, CaseList.HIDDEN_BENCHMARKS)
        counts = timed or not (right or finding.null is Null.LOWER_PRECISION)
        if counts and finding.null not in PROBES:
            return False
        alike = {(each.list, each.index) for each, _right in self._accepted if each.null is finding.null}
        return len(alike) < self._asked.get(finding.null, 0)
