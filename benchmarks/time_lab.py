"""A judge and contestants that stay: many runs in one warm process tree.

Judge, contestants and frames are those of the harness; what is left out are the runner, the sandbox and
the start. Contestants import the submission of each run anew.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from time_common import environment

from kernelcup_harness import bench, estimates, handover, surroundings
from kernelcup_harness.contestant import MAX_FRAME
from kernelcup_harness.crew import RIVAL, SOURCE_OF, SUBMISSION
from kernelcup_harness.frames import Channel
from kernelcup_harness.judge import Judge
from kernelcup_harness.protocol import Backend, DeviceFacts, JobSpec, to_json
from kernelcup_harness.record import Record

MEMBER = "import sys; from kernelcup_harness import contestant; contestant.main(*sys.argv[1:])"
READY_S = 180.0
STDERR = "stderr.txt"
LAST_WORDS, LAST_WORDS_S = 6000, 0.5


class Again(Judge):
    """A judge of contestants that may have been greeted by another before."""

    def _greet(self) -> None:
        if not self._channel.has_greeted:
            super()._greet()
            self._channel.has_greeted = True


class Events:
    """Stands for the runner: keeps what the judge says."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def send(self, event: dict[str, Any], *_more: Any, **_options: Any) -> None:
        """Take one event."""
        self._record.take(event)


class Lab:
    """Contestants by role, and a judge in this process."""

    def __init__(self, backend: Backend, folder: Path, roles: tuple[str, ...]) -> None:
        self._backend = backend
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._runners: dict[str, Channel] = {}
        self.folders: dict[str, Path] = {}
        self.channels: dict[str, Channel] = {}
        for role in roles:
            self._start(role, folder / role)
        for role in roles:
            self._hand_over(role)

    def _start(self, role: str, folder: Path) -> None:
        folder.mkdir()
        (ours, theirs), (runner, runners_end) = socket.socketpair(), socket.socketpair()
        fds = [theirs.fileno(), runners_end.fileno()]
        environ = {
            **environment(),
            **surroundings.backend_environment(self._backend),
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "PYTHONFAULTHANDLER": "1",
        }
        command = [sys.executable, "-P", "-c", MEMBER, str(fds[0]), str(fds[1]), str(os.getpid())]
        with (folder / STDERR).open("wb") as stderr:
            self._children[role] = subprocess.Popen(
                command, cwd=folder, env=environ, pass_fds=fds, stderr=stderr
            )
        theirs.close()
        runners_end.close()
        self.folders[role] = folder
        self.channels[role] = Channel(ours, max_bytes=MAX_FRAME, max_fds=0)
        self._runners[role] = Channel(runner, max_bytes=MAX_FRAME)

    def _hand_over(self, role: str) -> None:
        channel = self._runners[role]
        channel.receive(READY_S)
        job = {"type": "job", "memory_bytes": 0, "built": False, "files": {}, "environment": {}}
        channel.send(job)
        channel.close()

    def judge(self, spec: JobSpec) -> dict[str, Any]:
        """Judge a job; return its report."""
        self._lay_out(spec)
        secret, began = secrets.token_bytes(32), time.monotonic()
        record = Record(spec, "", lambda _event: None)
        channels = {role: each for role, each in self.channels.items() if role in ("submission", "trusted")}
        events: Any = Events(record)
        Again(spec, secret, events, channels).judge()
        return dict(to_json(record.report(secret=secret, duration_s=time.monotonic() - began)))

    def duel(self, spec: JobSpec, budget_s: float) -> dict[str, Any]:
        """Have the submission and the rival of a job fight, in two processes each; return what came of it."""
        from kernelcup_harness import masks, task_code
        from kernelcup_harness.calls import Caller
        from kernelcup_harness.checks import Checks
        from kernelcup_harness.duel import Duel, result
        from kernelcup_harness.protocol import StageName
        from kernelcup_harness.schedule import cases_of

        self._lay_out(spec)
        task = task_code.TaskCode(spec.reference_module, spec.check_style, Path.cwd())
        checks = Checks(task, secrets.token_bytes(32), aliasing=spec.aliasing)
        mask = masks.Mask(gpu=masks.on_gpu())
        until = time.monotonic() + spec.limits.ranked_s
        callers, offsets_ns = [], []
        files = (spec.submission_name, spec.rival_name)
        for role, file in [part for pair in bench.PAIRS for part in zip(pair, files, strict=True)]:
            offsets_ns.append(self.offset_ns(role, spec.device))
            bench.load(self.channels[role], file, spec.limits.import_s)
            callers.append(Caller(self.channels[role], task.record_type, spec.limits.result_bytes, mask))
        duels = [
            Duel(
                checks,
                (callers[2 * number], callers[2 * number + 1]),
                offsets_ns=(offsets_ns[2 * number], offsets_ns[2 * number + 1]),
                remaining=lambda: until - time.monotonic(),
                number=number,
            )
            for number in range(len(bench.PAIRS))
        ]
        places = [checks.place(StageName.RANKED, case) for case in cases_of(spec.benchmarks, [])]
        try:
            return dict(to_json(result([duel.fight(places, budget_s / len(duels)) for duel in duels])))
        finally:
            # Memory of the next caller may lie where this one's was, which the driver must not know any more.
            for caller in callers:
                caller.close()

    def offset_ns(self, role: str, device: DeviceFacts | None) -> float:
        """Return what events add to a kernel in one process; 0 where no GPU is."""
        bench.hello(self.channels[role])
        if self._backend is not Backend.CUDA:
            return 0.0
        # As in a job; what an empty kernel itself takes is the same in all.
        known_ns = (device.empty_kernel_ns if device is not None else None) or 0.0
        return max(0.0, estimates.robust(bench.empty_calls_ns(self.channels[role])) - known_ns)

    def calibrate(self, samples: int, empty_kernel_ns: float | None) -> dict[str, Any]:
        """Have the trusted contestant measure what is known; return its raw readings and what follows."""
        from kernelcup_harness.trusted import Trusted

        from kernelcup_harness import masks
        from kernelcup_harness.calls import Caller

        channel, gpu = self.channels["trusted"], masks.on_gpu()
        bench.hello(channel)
        caller = Caller(channel, lambda _module, _name: None, 1 << 30, masks.Mask(gpu=gpu))
        trusted = Trusted(caller, channel, gpu=gpu, empty_kernel_ns=empty_kernel_ns)
        trusted.begin()
        trusted.calibrate(samples)
        caller.close()
        return {
            "readings": dataclasses.asdict(trusted.readings),
            "residual_ns": trusted.handshake_residual_ns,
            "offset_ns": trusted.offset_ns,
        }

    def _lay_out(self, spec: JobSpec) -> None:
        handover.lay_out(spec.sources)
        for role, folder in self.folders.items():
            source = SOURCE_OF.get(role)
            if source == SUBMISSION:
                (folder / spec.submission_name).write_text(spec.submission)
            elif source == RIVAL and spec.rival is not None:
                (folder / spec.rival_name).write_text(spec.rival)

    def last_words(self) -> str:
        """Return how contestants have ended that are not there any more, and the end of what they said."""
        told = []
        for role, child in self._children.items():
            # Its end of the channel is closed before it can be waited for.
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(LAST_WORDS_S)
                said = (self.folders[role] / STDERR).read_text(errors="replace")[-LAST_WORDS:]
                told.append(f"{role} ended with {code}:\n{said}")
        return "\n".join(told)

    def close(self) -> None:
        """End all contestants."""
        for channel in self.channels.values():
            channel.close()
        for child in self._children.values():
            child.kill()
            child.wait()


@contextmanager
def lab(backend: Backend, *roles: str) -> Iterator[Lab]:
    """Have a lab for as long as the block lasts. The working folder is one of its own meanwhile."""
    before = Path.cwd()
    os.environ.update(surroundings.backend_environment(backend))
    with tempfile.TemporaryDirectory(prefix="kernelcup-lab-") as name:
        (Path(name) / "judge").mkdir()
        os.chdir(Path(name) / "judge")
        made = Lab(backend, Path(name), roles)
        try:
            yield made
        finally:
            made.close()
            os.chdir(before)


def with_budget(spec: JobSpec, seconds: float) -> JobSpec:
    """Return a job whose timed stage may take so long."""
    return dataclasses.replace(spec, rules=dataclasses.replace(spec.rules, stage_budget_s=seconds))
