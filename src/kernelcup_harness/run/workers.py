"""The processes of one job with the standard harness: the judge, and one contestant for each role.

They can be started before the job is known: they import what they need, report ready, and wait for
the job in their sandboxes (see :mod:`kernelcup_harness.run.startup`). Each is used for one job.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelcup_harness.build.store import Build
from kernelcup_harness.core.plan import captures
from kernelcup_harness.device import accelerators
from kernelcup_harness.isolation import job_environment, layout, processes, sandbox
from kernelcup_harness.isolation.sizes import RANKS
from kernelcup_harness.profile.port import Around
from kernelcup_harness.protocol import Backend, JobSpec, Limits, ProfileWay, variables
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import ContestantJob, JudgeJob, Started
from kernelcup_harness.wire.messages import pack, unpack

JUDGE = "judge"
SUBMISSION = "submission"
HIDDEN = "hidden"
"""Runs the submission too, for hidden cases only. Its author sees nothing that it says."""
RIVAL = "rival"
TIMER = "timer"
"""Replays captured calls. Runs the harness's code only, and needs no torch."""

RIVAL_TIMER = "rival-timer"
"""Replays the rival's: kernels of two submissions never share a context."""

WITNESS = "witness"
"""Samples the device's counters. Runs the harness's code only, and has no context on the device."""

ROLES = (SUBMISSION, HIDDEN, RIVAL, TIMER, RIVAL_TIMER, WITNESS)
"""Contestants, the timers and the witness, in the order in which the judge has their channels."""
USER_CODE = (SUBMISSION, HIDDEN, RIVAL)
"""The roles that run code of users."""
USER_IDS = {
    JUDGE: layout.JUDGE_ID,
    SUBMISSION: layout.CONTESTANT_ID,
    HIDDEN: layout.HIDDEN_ID,
    RIVAL: layout.RIVAL_ID,
    TIMER: layout.TIMER_ID,
    RIVAL_TIMER: layout.RIVAL_TIMER_ID,
    WITNESS: layout.WITNESS_ID,
}

MODULES = {
    JUDGE: "judge_process",
    TIMER: "timer_process",
    RIVAL_TIMER: "timer_process",
    WITNESS: "witness_process",
}
"""What each role runs; all others are contestants."""

MAX_EVENT_FRAME = 256 << 20
MAX_READY_FRAME = 1 << 16
JUDGE_OUTPUT_BYTES = 64 << 20
HAND_OVER_S = 30.0
DISMISS_S = 10.0
KEPT_LOG = 2000


Profiler = tuple[str, Around]
"""The role whose process runs under a profiler, and that profiler."""


class NotStarted(Exception):
    """A process of the harness did not start, ended before it had a job, or could not be ended."""


@dataclass(slots=True)
class Worker:
    """One process, and the runner's channel to it."""

    role: str
    child: processes.Child
    channel: Channel
    began: float | None = None
    """When its first line ran; None until it has reported ready."""
    imported: float = 0.0
    is_dismissed: bool = False
    """Whether it was ended because its work is done."""

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self.child.process.poll() is None

    def how_it_ended(self) -> str:
        """Describe how it ended, with the end of its standard error."""
        code = self.child.wait(2.0)
        log = self.child.stderr.finish().text if self.child.stderr is not None else ""
        how = "is still there" if code is None else f"ended with code {code}"
        return f"the process of the {self.role} {how}: {log[-KEPT_LOG:]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The part of a job that one contestant receives."""

    files: Mapping[str, str]
    limits: Limits
    memory_bytes: int
    """The limit that the process sets for itself; 0 for none."""
    group_bytes: int | None
    """The limit of its control group; None for no control group."""
    environment: Mapping[str, str]
    build: Build | None = None


def usual_roles(backend: Backend, ranks: int) -> tuple[str, ...]:
    """Return the contestants of most jobs; calls on several GPUs are not replayed."""
    if backend is not Backend.CUDA:
        return (SUBMISSION,)
    return (SUBMISSION, WITNESS) if ranks else (SUBMISSION, TIMER, WITNESS)


class Workers:
    """Judge and contestants, started by the constructor.

    Create it in a thread that lives as long as they do: the system ends them together with the thread
    that started them.

    Args:
        backend: The backend they run on.
        folder: An empty folder for these processes alone.
        boxed: Whether each gets a sandbox.
        roles: Contestants to start at once, by default those of most jobs; :meth:`add` starts more.
        profiler: The role whose process runs under a profiler, and that profiler.
        ranks: On how many GPUs judge and contestants work at once, with a loopback; 0 for one, without any network.
    """

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        *,
        boxed: bool,
        roles: tuple[str, ...] | None = None,
        profiler: Profiler | None = None,
        ranks: int = 0,
    ) -> None:
        self.backend = backend
        self.boxed = boxed
        self.ranks = ranks
        self.spawned = time.monotonic()
        self._folder = folder
        self._profiler = profiler
        self._by_role: dict[str, Worker] = {}
        self._stopped = False
        ends = {role: socket.socketpair() for role in ROLES}
        self._ends = {role: theirs for role, (_, theirs) in ends.items()}
        try:
            judges = [ours for ours, _ in ends.values()]
            self._by_role[JUDGE] = self._start(JUDGE, judges, MAX_EVENT_FRAME)
            for role in usual_roles(backend, ranks) if roles is None else roles:
                self.add(role)
        except BaseException:
            self.stop()
            raise

    @property
    def judge(self) -> Worker:
        """The process that decides."""
        return self._by_role[JUDGE]

    @property
    def submission(self) -> Worker:
        """The process of the submission."""
        return self._by_role[SUBMISSION]

    @property
    def contestants(self) -> dict[str, Worker]:
        """The contestants, by role."""
        return {role: self._by_role[role] for role in ROLES if role in self._by_role}

    @property
    def process_ids(self) -> set[int]:
        """The ids of its processes as the runner sees them."""
        return {worker.child.process.pid for worker in self._by_role.values()}

    def add(self, role: str) -> None:
        """Start one more contestant."""
        self._by_role[role] = self._start(role, [self._ends.pop(role)], MAX_READY_FRAME)

    def fits(self, spec: JobSpec, *, boxed: bool) -> bool:
        """Return whether it can serve a job."""
        alive = not self._stopped and all(worker.is_alive for worker in self._by_role.values())
        return alive and (self.backend, self.boxed, self.ranks > 0) == (spec.backend, boxed, spec.multi_gpu)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return once all have imported what they need. Raise :class:`NotStarted`."""
        until = time.monotonic() + timeout_s
        for worker in self._by_role.values():
            if worker.began is None:
                self._wait_for(worker, until)

    def started_s(self) -> dict[str, float]:
        """Return the seconds until the last process ran, and from then until all had finished their imports."""
        began = max(worker.began or 0.0 for worker in self._by_role.values())
        imported = max(worker.imported for worker in self._by_role.values())
        return {"start": began - self.spawned, "import": imported - began}

    def hand_over(self, shares: Mapping[str, Share], spec: JobSpec, secret: bytes) -> None:
        """Give each contestant its share and the judge the job. Raise :class:`NotStarted`.

        Args:
            shares: One share for each role, the judge's too if it has a build; workers without one keep waiting.
            spec: The job.
            secret: The secret that inputs are drawn from.
        """
        try:
            for role, share in shares.items():
                if role != JUDGE:
                    self._give(self._by_role[role], share)
            # By position: the judge has a channel for every role, even those that this job does not use.
            roles = [role if role in shares else "" for role in ROLES]
            job = JudgeJob(spec=spec, secret_seed=secret.hex(), roles=roles, environment={})
            self._give_judge(job, shares.get(JUDGE))
        except (ChannelClosed, ChannelTimeout) as error:
            dead = next((each for each in self._by_role.values() if not each.is_alive), self.judge)
            raise NotStarted(dead.how_it_ended()) from error
        self._close_ends()

    def wait_for_profiler(self, timeout_s: float) -> None:
        """Wait until a profiler has written its report: the judge is gone, and so the profiled process ends."""
        if self._profiler is not None:
            self._by_role[self._profiler[0]].child.wait(timeout_s)

    def dismiss(self, roles: Collection[str]) -> None:
        """End some processes and everything that they started, while the others keep running.

        Raise :class:`NotStarted` if one is still there afterwards.
        """
        ended = [
            worker for role, worker in self._by_role.items() if role in roles and not worker.is_dismissed
        ]
        family = [pid for worker in ended for pid in processes.descendants(worker.child.process.pid)]
        for worker in ended:
            worker.is_dismissed = True
            processes.kill_tree(worker.child.process.pid)
        gone = {worker.child.process.pid for worker in ended}
        processes.kill_descendants(spare=gone, keep=self.process_ids - gone)
        for pid in (*gone, *family):
            processes.wait_for_end(pid, DISMISS_S)
        if left := [worker.role for worker in ended if worker.is_alive]:
            raise NotStarted(f"the process of the {left[0]} cannot be ended")

    def stop(self) -> None:
        """End all processes and everything that they started. Their output can be read afterwards."""
        if self._stopped:
            return
        self._stopped = True
        self._close_ends()
        for pid in self.process_ids:
            processes.kill_tree(pid)
        # A daemon of the submission would keep its output open, and this process would wait for its end.
        processes.kill_descendants(spare=self.process_ids)
        for worker in self._by_role.values():
            worker.child.wait(2.0)
            worker.channel.close()

    def was_killed(self, roles: Collection[str] = MODULES) -> bool:
        """Return whether a process of these roles was killed, by default of those that run the harness's code only."""
        some = [each for role, each in self._by_role.items() if role in roles and not each.is_dismissed]
        return any(each.child.was_killed() for each in some)

    def log(self) -> None:
        """Copy the output of the harness's own processes to standard error, for the operator's log."""
        for role in MODULES:
            child = self._by_role[role].child if role in self._by_role else None
            for capture in (child.stdout, child.stderr) if child is not None else ():
                text = capture.finish().text if capture is not None else ""
                if text:
                    sys.stderr.write(text if text.endswith("\n") else text + "\n")

    def _start(self, role: str, ends: list[socket.socket], max_bytes: int) -> Worker:
        ours, theirs = socket.socketpair()
        files = self._folder / role
        files.mkdir()
        fds = [end.fileno() for end in (*ends, theirs)]
        if role == JUDGE:  # the runner's channel comes first there
            fds = [fds[-1], *fds[:-1]]
        try:
            child = self._start_process(role, files, fds)
        finally:
            for end in (*ends, theirs):
                end.close()
        return Worker(role, child, Channel(ours, max_bytes=max_bytes, max_fds=0))

    def _start_process(self, role: str, files: Path, fds: list[int]) -> processes.Child:
        outer = job_environment.parent_id(boxed=self.boxed)
        around = self._profiler[1] if self._profiler is not None and self._profiler[0] == role else None
        # The profiler starts the process, by an id that nobody knows yet.
        parent = outer if around is None else "0"
        numbers = [str(fd) for fd in fds]
        arguments = [numbers[0], parent, *numbers[1:]] if role == JUDGE else [*numbers, parent]
        module = MODULES.get(role, "contestant_process")
        devices = accelerators.of(self.backend).nodes(os.environ)
        visible = around.visible if around is not None else ()
        box = sandbox.Sandbox(
            user_id=USER_IDS[role], files=files, devices=devices, visible=visible, network=self.ranks > 0
        )
        limits = Limits()
        argv = processes.python_argv(f"kernelcup_harness.{module}", "main", *arguments)
        return processes.start(
            argv if around is None else around.around(argv, outer),
            cwd=files,
            environment=self._environment(role),
            fds=fds if around is None else [*fds, *around.fds],
            keep_output=limits.kept_output_bytes,
            cap_output=JUDGE_OUTPUT_BYTES if role not in USER_CODE else limits.output_bytes,
            box=box if self.boxed else None,
        )

    def _environment(self, role: str) -> dict[str, str]:
        caches = None if self.boxed else self._folder / f"{role}-caches"
        clean = processes.clean_environment(caches, os.environ)
        ranks = {RANKS: str(self.ranks)} if self.ranks else {}
        return clean | job_environment.backend_environment(self.backend) | ranks

    def _wait_for(self, worker: Worker, until: float) -> None:
        try:
            started = unpack(Started, worker.channel.receive(max(0.0, until - time.monotonic())))
            worker.began, worker.imported = started.began, started.imported
        except ChannelTimeout as error:
            raise NotStarted(f"the process of the {worker.role} did not start in time") from error
        except (ChannelClosed, BrokenProtocol) as error:
            raise NotStarted(worker.how_it_ended()) from error

    def _give(self, worker: Worker, share: Share) -> None:
        """Give a contestant its share: after this it runs untrusted code and talks to the judge only."""
        limits = share.limits
        cap = limits.output_bytes if worker.role in USER_CODE else JUDGE_OUTPUT_BYTES
        worker.child.limit_output(keep=limits.kept_output_bytes, cap=cap)
        if share.group_bytes is not None:
            worker.child.limit_memory(share.group_bytes)
        job = ContestantJob(
            memory_bytes=share.memory_bytes,
            built=share.build is not None,
            files=dict(share.files),
            environment=dict(share.environment),
        )
        fds = [share.build.open()] if share.build is not None else []
        try:
            worker.channel.send(pack(job), fds, timeout_s=HAND_OVER_S)
        finally:
            for fd in fds:
                os.close(fd)
        worker.channel.close()

    def _give_judge(self, job: JudgeJob, share: Share | None) -> None:
        build = share.build if share is not None else None
        if share is not None:
            job = dataclasses.replace(job, environment=dict(share.environment))
        fds = [build.open()] if build is not None else []
        try:
            self.judge.channel.send(pack(job), fds, timeout_s=HAND_OVER_S)
        finally:
            for fd in fds:
                os.close(fd)

    def _close_ends(self) -> None:
        while self._ends:
            self._ends.popitem()[1].close()


def asked_of(spec: JobSpec) -> dict[str, str]:
    """Return the variables that say what a contestant has to do beside ordinary calls."""
    asked = {
        variables.CLEAN_ROOM: captures(spec),
        variables.MARKS_CALLS: spec.profile.way is ProfileWay.CALLED,
    }
    return {name: "1" for name, is_asked in asked.items() if is_asked}
