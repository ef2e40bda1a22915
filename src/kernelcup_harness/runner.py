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

from kernelcup_harness import own_harness, processes, sandbox, seeds
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

MAX_EVENT_FRAME = 256 << 20
JUDGE_OUTPUT_BYTES = 64 << 20
WATCH_INTERVAL_S = 0.1
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
    boxed = spec.sandbox is not SandboxPolicy.NONE and sandbox.bubblewrap() is not None
    record.environment["sandbox"] = sandbox.describe() if boxed else {"kind": "none"}
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


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write text files below ``folder``. Raise ValueError for a name that leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name, text in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or path.resolve() == folder.resolve():
            raise ValueError(f"file name {name!r} leads out of the job's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        # Whatever the umask is: the sandbox's user is another one.
        path.chmod(0o644)
        for parent in path.relative_to(folder).parents:
            (folder / parent).chmod(0o755)


def memory_limit(spec: JobSpec) -> int:
    """Return the host memory in bytes that a contestant may use on this machine."""
    return min(spec.limits.memory_bytes, int(processes.total_memory() * 0.6))


def backend_environment(backend: Backend) -> dict[str, str]:
    """Return the variables that tell the children how to answer for a GPU."""
    # JAX would take three quarters of the device's memory at its first call.
    found = {"KERNELCUP_BACKEND": backend.value, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if backend is Backend.EMULATED:
        found |= {"KERNELCUP_EMULATED": "1", "TRITON_INTERPRET": "1"}
    if backend is not Backend.CUDA:
        found["CUDA_VISIBLE_DEVICES"] = ""
    return found


class StandardRun:
    """One run under our judge: two processes, three sockets' ends, one record."""

    def __init__(self, spec: JobSpec, secret: bytes, folder: Path, record: Record, *, boxed: bool) -> None:
        self._spec = spec
        self._secret = secret
        self._folder = folder
        self._record = record
        self._boxed = boxed
        self._looked = 0.0
        self._deadline = time.monotonic() + HELLO_GRACE_S + GRACE_S
        self._memory_bytes = memory_limit(spec)

    def run(self) -> None:
        """Start both processes, follow the judge's events, and end everything."""
        if self._spec.multi_gpu:
            text = "multi-GPU tasks are not judged by the standard harness yet; use the task's own"
            self._record.fail(StageName.IMPORT, Verdict.INTERNAL_ERROR, Reason.TASK, text)
            return
        self._lay_out()
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

    def _environment(self, role: str) -> dict[str, str]:
        caches = None if self._boxed else self._folder / f"{role}-caches"
        return processes.clean_environment(caches, os.environ) | backend_environment(self._spec.backend)

    def _start_judge(self, runner_end: socket.socket, contestant_end: socket.socket) -> processes.Child:
        with runner_end, contestant_end:
            return self._start(
                "judge",
                sandbox.JUDGE_ID,
                [runner_end.fileno(), contestant_end.fileno()],
                self._parent(),
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
                self._parent(),
                str(memory),
                cap_output=self._spec.limits.output_bytes,
            )

    def _start(self, role: str, user_id: int, fds: list[int], *rest: str, cap_output: int) -> processes.Child:
        """Start the judge or the contestant in a folder, and where possible a sandbox, of its own."""
        files = self._folder / role
        box = sandbox.Sandbox(user_id=user_id, files=files, gpu=self._spec.backend is Backend.CUDA)
        return processes.start(
            processes.python_argv(f"kernelcup_harness.{role}", "main", *map(str, fds), *rest),
            cwd=files,
            environment=self._environment(role),
            fds=fds,
            keep_output=self._spec.limits.kept_output_bytes,
            cap_output=cap_output,
            box=box if self._boxed else None,
        )

    def _parent(self) -> str:
        """Return the id by which a child knows its parent: in a sandbox that is its first process."""
        return "1" if self._boxed else str(os.getpid())

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
        return processes.private_memory(contestant) + max(0, shared)

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
