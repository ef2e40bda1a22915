"""One job with the standard harness: start the processes, hand over the job, follow the judge, end everything."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from itertools import compress
from pathlib import Path

from kernelcup_harness.build import step, store
from kernelcup_harness.core.plan import captures, meets_hidden
from kernelcup_harness.core.verdict import LOST, line_in
from kernelcup_harness.isolation import job_environment, processes, sandbox
from kernelcup_harness.isolation.job_environment import (
    WATCH_INTERVAL_S,
    backend_environment,
    memory_limit,
    write_files,
)
from kernelcup_harness.isolation.sizes import ranks_of
from kernelcup_harness.protocol import (
    Backend,
    CapturedOutput,
    JobSpec,
    Mode,
    Reason,
    SourceTree,
    StageName,
    Verdict,
)
from kernelcup_harness.run import compiling
from kernelcup_harness.run.overruns import Overruns
from kernelcup_harness.run.record import Record, ended, standard_error
from kernelcup_harness.run.workers import (
    HIDDEN,
    JUDGE,
    RIVAL,
    ROLES,
    SUBMISSION,
    USER_CODE,
    NotStarted,
    Profiler,
    Share,
    Workers,
    asked_of,
)
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import FROM_JUDGE
from kernelcup_harness.wire.messages import (
    Dismiss,
    Dismissed,
    End,
    Message,
    StageBegins,
    StageEnds,
    pack,
    unpack_any,
)

# How much longer than its limit a stage may take before the runner, not the judge, ends it: for an answer that arrives
# at the limit, the check may be made three times.
GRACE_S = 60.0
HELLO_GRACE_S = 120.0
READY_S = 120.0
"""Time for the imports of judge and contestants."""

RIVALS_SCOPE = "rival"
"""Scope of the builds of rivals: not their authors', because other users run them. Equal sources share builds."""
DUMP = "Fatal Python error"
"""The stack that Python prints when a signal ends it begins with this."""


class StandardRun:
    """One run: its processes, the runner's end of the judge's channel, one record."""

    def __init__(
        self,
        spec: JobSpec,
        secret: bytes,
        folder: Path,
        record: Record,
        *,
        boxed: bool,
        ahead: Workers | None = None,
        profiler: Profiler | None = None,
    ) -> None:
        self._spec, self._profiler = spec, profiler
        self._secret = secret
        self._folder = folder
        self._record, self._boxed = record, boxed
        self._ahead = ahead
        self._roles = roles_of(spec)
        self._workers: Workers | None = None
        self._looked = 0.0
        self._memory_bytes = memory_limit(spec)
        self._compilers = compiling.AskedCompilers(spec.backend)

    def run(self) -> None:
        """Run the job until the judge's last event. Failures are in the record."""
        try:
            builds = self._start_and_build()
            if builds is not None:
                self._hand_over(builds)
                self._follow(self._started.judge.channel)
                self._started.wait_for_profiler(self._spec.limits.profile_s)
        except NotStarted as error:
            self._fail(str(error))
        except ChannelClosed:
            self._fail(self._started.judge.how_it_ended())  # without a verdict
        finally:
            self._stop()

    def build(self) -> bool:
        """Compile what compilers alone make, for the store of builds; return whether that ended the run."""
        roles = [
            each for each in self._roles_that_build() if each == JUDGE or step.is_compiled(self._tree(each))
        ]
        return self._built(roles) is None

    @property
    def _started(self) -> Workers:
        assert self._workers is not None
        return self._workers

    def _start_and_build(self) -> dict[str, store.Build | None] | None:
        """Start and build side by side. Return the builds by role, None if the run has ended."""
        roles = self._roles_that_build()
        # Without separate file names a build needs the folder that the submission's process would already use.
        build_first = bool(roles) and not sandbox.has_own_names()
        if not build_first:
            self._take_or_start()
        elif self._ahead is not None:
            self._ahead.stop()
        builds = self._built(roles)
        if builds is not None and build_first:
            self._take_or_start()
        return builds

    def _take_or_start(self) -> None:
        """Take the waiting processes if they fit, else start new ones."""
        if self._ahead is not None and self._ahead.fits(self._spec, boxed=self._boxed):
            self._workers = self._ahead
            self._record.phases |= {"start": 0.0, "import": 0.0}
            for role in self._roles:
                if role not in self._workers.contestants:
                    self._workers.add(role)
            return
        if self._ahead is not None:
            self._ahead.stop()
        folder = self._folder / "workers"
        folder.mkdir()
        self._workers = Workers(
            self._spec.backend,
            folder,
            boxed=self._boxed,
            roles=self._roles,
            profiler=self._profiler,
            ranks=ranks_of(self._spec),
        )

    def _roles_that_build(self) -> list[str]:
        """Return the roles whose source compiles something at import.

        Without a sandbox there is none to build in either: the contestant compiles then.
        """
        wanted = [role for role in (SUBMISSION, RIVAL) if self._boxed and role in self._roles]
        building = [role for role in wanted if step.has_build(self._tree(role))]
        return [*building, *([JUDGE] if self._boxed and compiling.is_reference_compiled(self._spec) else [])]

    def _tree(self, role: str) -> SourceTree:
        """Return the files that a role calls."""
        rival = self._spec.rival
        return rival if role == RIVAL and rival is not None else self._spec.submission

    def _built(self, roles: list[str]) -> dict[str, store.Build | None] | None:
        """Compile what sources compile at import. Return None if that ends the run."""
        builds: dict[str, store.Build | None] = {}
        began = time.monotonic()
        if SUBMISSION in roles:
            self._record.begin(StageName.IMPORT, self._spec.limits.import_s, 0)
        for role, built in self._each_built(roles):
            builds[role] = built.build
            if role == SUBMISSION:
                self._record.build(built)
                if built.too_much is not None:
                    return None
        if roles:
            self._record.phases["build"] = time.monotonic() - began
        return builds

    def _each_built(self, roles: list[str]) -> Iterator[tuple[str, step.Built]]:
        """Yield each role's build: at once where compilers alone work; no build runs beside code of a submission."""
        kept = self._workers.process_ids if self._workers is not None else set()
        if len(roles) > 1 and all(each == JUDGE or step.is_compiled(self._tree(each)) for each in roles):
            return step.side_by_side({role: self._builder(role, None) for role in roles}, keep=kept)
        return ((role, self._builder(role, kept).get()) for role in roles)

    def _builder(self, role: str, kept: set[int] | None) -> step.Builder:
        spec = self._spec
        if role == JUDGE:
            return compiling.reference_builder(
                spec, self._folder / "build-judge", self._compiling(SUBMISSION), kept
            )
        if role == RIVAL:
            scope = RIVALS_SCOPE if spec.build_scope else ""
            spec = dataclasses.replace(spec, submission=self._tree(role), build_scope=scope)
        folder = self._folder / f"build-{role}"
        write_files(folder, self._files(role))
        clean = processes.clean_environment(None, os.environ)
        return step.Builder(
            spec,
            files=folder,
            environment=clean | backend_environment(spec.backend) | self._compiling(role),
            boxed=True,
            store=store.from_environment(os.environ),
            keep=kept,
        )

    def _compiling(self, role: str) -> dict[str, str]:
        """Return the compiler settings for a role's code, the same for its build and its calls."""
        return compiling.settings(self._spec, self._tree(role), self._compilers)

    def _files(self, role: str) -> dict[str, str]:
        """Return the files that a process may read; the judge has the job's."""
        return {} if role not in USER_CODE else beside(self._spec, self._tree(role))

    def _hand_over(self, builds: Mapping[str, store.Build | None]) -> None:
        workers = self._started
        workers.wait_until_ready(READY_S)
        self._record.phases = workers.started_s() | self._record.phases
        began = time.monotonic()
        builds = {**builds, HIDDEN: builds.get(SUBMISSION)}
        shares = {role: self._share(role, builds.get(role)) for role in self._roles}
        if compiling.is_reference_compiled(self._spec):
            shares[JUDGE] = self._share(JUDGE, builds.get(JUDGE))
        self._overruns = Overruns(workers)
        workers.hand_over(shares, self._spec, self._secret)
        self._deadline = time.monotonic() + HELLO_GRACE_S + GRACE_S
        self._record.phases["hand-over"] = time.monotonic() - began

    def _share(self, role: str, built: store.Build | None) -> Share:
        # A GPU driver reserves address ranges that would count against the limit.
        limited = role in USER_CODE and self._spec.backend is not Backend.CUDA
        return Share(
            files=self._files(role),
            limits=self._spec.limits,
            memory_bytes=self._memory_bytes if limited else 0,
            group_bytes=job_environment.group_memory(self._spec) if role in USER_CODE else None,
            environment=self._environment(role),
            build=built,
        )

    def _environment(self, role: str) -> dict[str, str]:
        if role == JUDGE:
            return compiling.reference_environment(self._spec, self._compiling(SUBMISSION))
        if role not in USER_CODE:
            return {}
        return self._compiling(role) | asked_of(self._spec)

    def _follow(self, channel: Channel) -> None:
        """Take the judge's messages until it has finished, watching memory and time."""
        while True:
            try:
                message = unpack_any(FROM_JUDGE, channel.receive(WATCH_INTERVAL_S))
            except ChannelTimeout:
                if not self._within_limits():
                    return
                continue
            except BrokenProtocol as error:
                self._fail(f"the judge sent {error}")
                return
            if isinstance(message, End):
                return
            self._heed(message, channel)
            # Limits are checked even if the judge sends messages all the time.
            if time.monotonic() - self._looked > WATCH_INTERVAL_S and not self._within_limits():
                return

    def _heed(self, message: Message, channel: Channel) -> None:
        """Carry out the request of a message, or record it."""
        if isinstance(message, Dismiss):
            self._started.dismiss(message.roles)
            channel.send(pack(Dismissed()), timeout_s=GRACE_S)
            return
        if isinstance(message, StageBegins):
            self._overruns.begin(message.limit_s)
            self._deadline = time.monotonic() + message.limit_s + GRACE_S
            self._deadline += HELLO_GRACE_S if message.name is StageName.IMPORT else 0.0
        elif isinstance(message, StageEnds):
            message = self._ended(message)
        self._record.take(message)

    def _ended(self, end: StageEnds) -> StageEnds:
        """Return the end of a stage with what only the runner knows of it."""
        if end.role not in self._started.contestants:
            return end  # a kept binary has no process
        child = self._started.contestants[end.role].child
        if end.lost:
            verdict, reason, text = ended(child, self._spec.limits, self._memory_bytes, timeout_s=2.0)
            text += end.message.removeprefix(LOST) + line_of(end, child, self._spec)
            return dataclasses.replace(end, verdict=verdict, reason=reason, message=text)
        if self._started.was_killed():
            verdict, text = Verdict.INTERNAL_ERROR, "a process of the harness was killed"
            return dataclasses.replace(end, verdict=verdict, reason=Reason.KILLED, message=text)
        end = self._overruns.end(end)
        if end.verdict is Verdict.TIME_LIMIT_EXCEEDED:
            child.abort()
            end = dataclasses.replace(end, message=end.message + line_of(end, child, self._spec))
        return end

    def _within_limits(self) -> bool:
        self._looked = time.monotonic()
        self._overruns.look()
        for role in USER_CODE:
            worker = self._started.contestants.get(role)
            if worker is None or worker.is_dismissed:
                continue
            if used_memory(worker.child, self._started.judge.child) > self._memory_bytes:
                worker.child.kill("memory")
        if time.monotonic() <= self._deadline:
            return True
        self._overruns.fail(self._record)
        return False

    def _fail(self, text: str) -> None:
        """End the run with a failure that is not the submission's fault."""
        killed = self._workers is not None and self._workers.was_killed({JUDGE, *ROLES})
        reason = Reason.KILLED if killed else Reason.MACHINE
        self._record.fail(self._record.stage, Verdict.INTERNAL_ERROR, reason, text)

    def _stop(self) -> None:
        if self._workers is None:
            return
        began = time.monotonic()
        worker = self._workers.contestants.get(SUBMISSION)
        if worker is not None and not worker.is_dismissed:
            self._record.exit_code = worker.child.process.poll()
        self._workers.stop()
        if worker is not None:
            self._record.stdout, self._record.stderr = printed(worker.child)
        self._workers.log()
        self._record.phases["end"] = time.monotonic() - began


def printed(child: processes.Child) -> tuple[CapturedOutput, CapturedOutput]:
    """Return what a process that has ended has printed."""
    assert child.stdout is not None
    return child.stdout.finish(), without_dump(standard_error(child))


def roles_of(spec: JobSpec) -> tuple[str, ...]:
    """Return the contestants that a job needs."""
    fights = spec.rival is not None and spec.mode is Mode.LEADERBOARD
    timed, code = captures(spec), spec.binary is None
    counted = timed or (spec.multi_gpu and spec.backend is Backend.CUDA and spec.mode is not Mode.TEST)
    watched = counted and spec.mode is not Mode.PROFILE  # a device has one reader of its counters
    rival = fights and timed
    needed = (code, meets_hidden(spec), rival and spec.rival_binary is None, timed, rival, watched)
    return tuple(compress(ROLES, needed))


def used_memory(child: processes.Child, judging: processes.Child) -> int:
    """Return the bytes that a contestant uses: its own memory, and shared memory except the judge's."""
    judge = judging.process.pid
    # What the judge's checker maps is not the contestant's.
    ours = [processes.status_bytes(each, "RssShmem:") for each in [judge, *processes.descendants(judge)]]
    shared = processes.shared_memory(child.process.pid) - max(ours)
    # A file in the sandbox's memory may be mapped, and then must not be counted twice.
    stored = child.stored_bytes(besides=[judge, *processes.descendants(judge)])
    return processes.private_memory(child.process.pid) + max(shared, stored)


def beside(spec: JobSpec, tree: SourceTree) -> dict[str, str]:
    """Return the files of a submission, and those of the task that it may read."""
    public = {name: text for name, text in spec.sources.items() if name not in spec.private_files}
    return {**public, **spec.shown_files, **tree.files}


def line_of(end: StageEnds, child: processes.Child, spec: JobSpec) -> str:
    """Return the line of a submission's file at which it hung or crashed; empty if it is not known.

    The submission controls this text, so it is not reported where inputs are secret.
    """
    if child.stderr is None or end.name is StageName.RANKED:
        return ""
    line = line_in(child.stderr.finish().text.rpartition(DUMP)[2], spec, first=True)
    return "" if line is None else f", at {spec.submission.entry}:{line}"


def without_dump(output: CapturedOutput) -> CapturedOutput:
    """Return a submission's output without the stack that Python prints when it is killed: the message has the line."""
    text, dump, _ = output.text.rpartition(DUMP)
    return dataclasses.replace(output, text=text) if dump else output
