"""A job from spec to report: folders, processes, limits, clean-up. No torch, no CUDA, no user code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelcup_harness import build, build_store, own_harness, processes, sandbox, seeds, surroundings
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    JobSpec,
    Reason,
    RunReport,
    SandboxPolicy,
    StageName,
    Verdict,
    to_json,
)
from kernelcup_harness.record import Record, ended
from kernelcup_harness.surroundings import WATCH_INTERVAL_S, backend_environment, memory_limit, write_files

MAX_EVENT_FRAME = 256 << 20
JUDGE_OUTPUT_BYTES = 64 << 20
# How much longer than its limit a stage may take before the runner, not the judge, ends it.
GRACE_S = 30.0
HELLO_GRACE_S = 120.0

FOLDER_PREFIX = "kernelcup-job-"

EventSink = Callable[[dict[str, Any]], None]


def run_job(spec: JobSpec, on_event: EventSink) -> RunReport:
    """Judge one submission and report. ``on_event`` is told of stages, samples and cases as they come."""
    processes.adopt_orphans()
    began = time.monotonic()
    secret = bytes.fromhex(spec.secret_seed) if spec.secret_seed else seeds.draw_secret()
    record = Record(spec, seeds.commitment(secret), on_event)
    network = spec.multi_gpu and spec.harness is HarnessKind.OWN
    boxed = spec.sandbox is not SandboxPolicy.NONE and sandbox.is_there(network=network)
    record.environment["sandbox"] = sandbox_in_force(network=network) if boxed else {"kind": "none"}
    if spec.sandbox is SandboxPolicy.REQUIRED and not boxed:
        text = "this job asks for a sandbox and the machine has none; `kernelcup doctor` says how to get it"
        record.fail(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.MACHINE, text)
        return record.report(secret=secret, duration_s=time.monotonic() - began)
    if spec.backend is Backend.CUDA and not has_gpu():
        text = "this machine has no GPU that can be used"
        record.fail(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.MACHINE, text)
        return record.report(secret=secret, duration_s=time.monotonic() - began)
    sweep_folders()
    with job_folder() as folder:
        try:
            if spec.harness is HarnessKind.OWN:
                own_harness.OwnHarness(spec, secret, folder, record, boxed=boxed).run()
            else:
                StandardRun(spec, secret, folder, record, boxed=boxed).run()
        finally:
            processes.kill_descendants()
    return record.report(secret=secret, duration_s=time.monotonic() - began)


def sandbox_in_force(*, network: bool) -> dict[str, str]:
    """Say what the sandbox of this job is."""
    return sandbox.describe(network=network) | ({"network": "its own loopback"} if network else {})


def has_gpu() -> bool:
    """Tell whether the machine shows the device nodes of a GPU."""
    return Path("/dev/kfd").exists() or any(Path("/dev").glob("nvidia[0-9]*"))


@contextmanager
def job_folder() -> Iterator[Path]:
    """Make a folder for a job and remove it afterwards, however deep it has become."""
    folder = tempfile.mkdtemp(prefix=f"{folder_prefix()}{os.getpid()}-")
    try:
        yield Path(folder)
    finally:
        # shutil.rmtree recurses, and a submission may nest folders deeper than Python does.
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)


def folder_prefix() -> str:
    """Return how the folders of runners begin that see the same process ids as this one."""
    return f"{FOLDER_PREFIX}{os.stat('/proc/self/ns/pid').st_ino}-"


def sweep_folders() -> None:
    """Remove what runners left behind that were killed before they could clean up."""
    for path in Path(tempfile.gettempdir()).glob(f"{folder_prefix()}*-*"):
        owner = path.name.removeprefix(folder_prefix()).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            subprocess.run(["rm", "-rf", "--", str(path)], check=False, stderr=subprocess.DEVNULL)


class StandardRun:
    """One run under our judge: two processes, three sockets' ends, one record."""

    def __init__(self, spec: JobSpec, secret: bytes, folder: Path, record: Record, *, boxed: bool) -> None:
        self._spec = spec
        self._secret = secret
        self._folder = folder
        self._record = record
        self._boxed = boxed
        self._looked = 0.0
        self._memory_bytes = memory_limit(spec)
        self._build: build_store.Build | None = None

    def run(self) -> None:
        """Start both processes, follow the judge's events, and end everything."""
        if self._spec.multi_gpu:
            text = "multi-GPU tasks are not judged by the standard harness yet; use the task's own"
            self._record.fail(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.TASK, text)
            return
        self._lay_out()
        if not self._build_first():
            return
        self._deadline = time.monotonic() + HELLO_GRACE_S + GRACE_S
        runner_end, judge_end = socket.socketpair()
        judge_side, contestant_side = socket.socketpair()
        self._contestant = self._start_contestant(contestant_side)
        self._judge = self._start_judge(judge_end, judge_side)
        channel = Channel(runner_end, max_bytes=MAX_EVENT_FRAME)
        try:
            channel.send({"spec": to_json(self._spec), "secret_seed": self._secret.hex()})
            self._follow(channel)
        except ChannelClosed:
            self._judge_lost()
        finally:
            self._stop()
            channel.close()

    def _lay_out(self) -> None:
        spec = self._spec
        write_files(self._folder / "judge", spec.sources)
        public = {name: text for name, text in spec.sources.items() if name not in spec.private_files}
        write_files(self._folder / "contestant", {**public, spec.submission_name: spec.submission})

    def _build_first(self) -> bool:
        """Have compiled what the submission compiles when it is imported. Return False if that ends the run.

        Without a sandbox there is none to build in either: the contestant does it all.
        """
        if not self._boxed or not build.builds_at_import(self._spec.submission):
            return True
        built = build.Builder(
            self._spec,
            files=self._folder / "contestant",
            environment=self._environment("contestant"),
            boxed=True,
            store=build_store.from_environment(os.environ),
        ).run(self._record)
        self._build = built.build
        return built.too_much is None

    def _environment(self, role: str) -> dict[str, str]:
        caches = None if self._boxed else self._folder / f"{role}-caches"
        backend = self._spec.backend
        return (
            processes.clean_environment(caches, os.environ)
            | backend_environment(backend)
            | surroundings.compiler_environment(backend, os.environ)
        )

    def _start_judge(self, runner_end: socket.socket, contestant_end: socket.socket) -> processes.Child:
        with runner_end, contestant_end:
            return self._start(
                "judge",
                sandbox.JUDGE_ID,
                [runner_end.fileno(), contestant_end.fileno()],
                surroundings.parent_id(boxed=self._boxed),
                cap_output=JUDGE_OUTPUT_BYTES,
            )

    def _start_contestant(self, end: socket.socket) -> processes.Child:
        # A GPU driver reserves address ranges that would count against the limit.
        memory = 0 if self._spec.backend is Backend.CUDA else self._memory_bytes
        with end:
            return self._start(
                "contestant",
                sandbox.CONTESTANT_ID,
                [end.fileno()],
                surroundings.parent_id(boxed=self._boxed),
                str(memory),
                cap_output=self._spec.limits.output_bytes,
                built=self._build,
            )

    def _start(
        self,
        role: str,
        user_id: int,
        fds: list[int],
        *rest: str,
        cap_output: int,
        built: build_store.Build | None = None,
    ) -> processes.Child:
        """Start the judge or the contestant in a folder, and where possible a sandbox, of its own."""
        files = self._folder / role
        box = sandbox.Sandbox(
            user_id=user_id,
            files=files,
            gpu=self._spec.backend is Backend.CUDA,
            memory_bytes=surroundings.group_memory(self._spec) if role == "contestant" else None,
        )
        argv = processes.python_argv(f"kernelcup_harness.{role}", "main", *map(str, fds), *rest)
        with build.unpacked_first(built, argv) as (argv, more):
            return processes.start(
                argv,
                cwd=files,
                environment=self._environment(role),
                fds=[*fds, *more],
                keep_output=self._spec.limits.kept_output_bytes,
                cap_output=cap_output,
                box=box if self._boxed else None,
            )

    def _follow(self, channel: Channel) -> None:
        """Take the judge's events until it has finished, watching memory and time."""
        while True:
            try:
                event = channel.receive(WATCH_INTERVAL_S)
            except ChannelTimeout:
                if not self._within_limits():
                    return
                continue
            except BrokenProtocol as error:
                self._fail(Reason.MACHINE, f"the judge sent {error}")
                return
            if event["event"] == "stage":
                self._deadline = time.monotonic() + event["limit_s"] + GRACE_S
                self._deadline += HELLO_GRACE_S if event["name"] == "import" else 0.0
            if event["event"] == "stage_end" and event["lost"]:
                event["verdict"], event["reason"], event["message"] = self._how_it_was_lost()
            if event["event"] == "end":
                return
            self._record.take(event)
            # A judge that talks all the time must not keep us from looking.
            if time.monotonic() - self._looked > WATCH_INTERVAL_S and not self._within_limits():
                return

    def _used_memory(self) -> int:
        """Return what the contestant uses: its own memory, and shared memory that is not the judge's too."""
        contestant, judge = self._contestant.process.pid, self._judge.process.pid
        shared = processes.shared_memory(contestant) - processes.shared_memory(judge)
        # A file in the sandbox's memory may be mapped, and is not counted twice then.
        return processes.private_memory(contestant) + max(shared, self._contestant.stored_bytes())

    def _within_limits(self) -> bool:
        self._looked = time.monotonic()
        if self._used_memory() > self._memory_bytes:
            self._contestant.kill("memory")
        if time.monotonic() <= self._deadline:
            return True
        text = "the task's own generator, reference or checker did not end in time"
        self._fail(Reason.TASK, text)
        return False

    def _how_it_was_lost(self) -> tuple[str, str, str]:
        how = ended(self._contestant, self._spec.limits, self._memory_bytes, timeout_s=2.0)
        return how[0].value, how[1].value, how[2]

    def _judge_lost(self) -> None:
        """Blame ourselves or the task for a judge that ended without a verdict."""
        code = self._judge.wait(2.0)
        assert self._judge.stderr is not None
        tail = self._judge.stderr.finish().text[-2000:]
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        self._fail(Reason.MACHINE, f"the judge ended with {how}: {tail}")

    def _fail(self, reason: Reason, text: str) -> None:
        """End the run where it is: nothing of it is the submission's fault."""
        self._record.fail(self._record.stage, Verdict.INTERNAL_ERROR, reason, text)

    def _stop(self) -> None:
        code = self._contestant.process.poll()
        processes.kill_tree(self._contestant.process.pid)
        processes.kill_tree(self._judge.process.pid)
        # A daemon of the submission would keep its output open, and us waiting for the end of it.
        processes.kill_descendants(spare={self._contestant.process.pid, self._judge.process.pid})
        self._record.exit_code = code
        assert self._contestant.stdout is not None
        assert self._contestant.stderr is not None
        self._record.stdout = self._contestant.stdout.finish()
        self._record.stderr = self._contestant.stderr.finish()
        self._contestant.wait(2.0)
        self._judge.wait(2.0)
        self._log_judge()

    def _log_judge(self) -> None:
        """Pass on what the judge wrote, for the operator's log."""
        for capture in (self._judge.stdout, self._judge.stderr):
            text = capture.finish().text if capture is not None else ""
            if text:
                sys.stderr.write(text if text.endswith("\n") else text + "\n")
