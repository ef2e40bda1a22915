"""Starting, watching and ending the processes of a run. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kernelcup_harness.isolation import disk_usage, passed_names, sandbox
from kernelcup_harness.isolation.layout import CACHE_VARIABLES as CACHE_VARIABLES
from kernelcup_harness.protocol import CapturedOutput
from kernelcup_harness.protocol.source import ROOT

PR_SET_PDEATHSIG = 1
ABORT_S = 2.0
PR_SET_CHILD_SUBREAPER = 36

# Exit code of a contestant whose channel is closed, by the submission or by the end of the judge.
CHANNEL_LOST = 97
# More than the beginning of /proc/PID/stat, with a name and the parent, ever has.
STAT_BYTES = 512
# Pause between two counts of files, as a multiple of the time that a count takes.
LOOKING_SHARE = 20.0

# Environment variables that a run may see; an operator may name more. The prefixes protect shared hardware.
PASSED_NAMES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
)
PASSED_PREFIXES = ("NCCL_", "NVSHMEM_", "TORCH_SYMM_MEM_")


def is_killed(code: int | None) -> bool:
    """Return whether an exit code, negative or above 128 for a signal, is of one that no fault of a process sends."""
    kills = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
    return code is not None and (-code in kills or code - 128 in kills)


def prctl(option: int, value: int) -> None:
    """Call prctl(2) and ignore a kernel that does not know the option."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """End this process when ``parent`` ends, even by SIGKILL; 0 for a parent whose id is not known beforehand."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Adopt processes whose parent is gone, so that :func:`kill_descendants` finds them."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def limit_resources(memory_bytes: int | None) -> None:
    """Set limits on this process and everything that it starts.

    ``memory_bytes`` bounds private writable memory; it is None where a GPU driver reserves
    address ranges that would count.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def clean_environment(caches: Path | None, parent: Mapping[str, str]) -> dict[str, str]:
    """Build an environment from nothing: the allowed names, and one folder for each cache.

    ``caches`` is None for a process in a sandbox: its caches lie in the sandbox's own memory.
    """
    patterns = passed_names.patterns(parent)
    environment = {
        name: value
        for name, value in parent.items()
        if name in PASSED_NAMES or name.startswith(PASSED_PREFIXES) or passed_names.passes(name, patterns)
    }
    for name in CACHE_VARIABLES:
        if caches is None:
            environment[name] = (
                sandbox.SCRATCH if name in ("HOME", "TMPDIR") else f"{sandbox.SCRATCH}/{name.lower()}"
            )
            continue
        folder = caches / name.lower()
        folder.mkdir(parents=True, exist_ok=True)
        environment[name] = str(folder)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


class OutputCapture:
    """Drain a pipe to its end, keep the beginning, and call ``on_overflow`` past the cap."""

    def __init__(self, pipe: IO[bytes], *, keep: int, cap: int, on_overflow: Callable[[], None]) -> None:
        self._pipe = pipe
        self._keep = keep
        self._cap = cap
        self._on_overflow = on_overflow
        self._kept = bytearray()
        self._total = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def limit(self, *, keep: int, cap: int) -> None:
        """Set how much is kept and allowed from now on."""
        self._keep, self._cap = keep, cap

    def finish(self, timeout_s: float = 2.0) -> CapturedOutput:
        """Wait for the end of the pipe and return its output."""
        self._thread.join(timeout_s)
        text = bytes(self._kept).decode("utf-8", errors="replace")
        return CapturedOutput(text=text, total_bytes=self._total, truncated=self._total > len(self._kept))

    def _drain(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 1 << 16):
                self._kept += chunk[: max(0, self._keep - len(self._kept))]
                before, self._total = self._total, self._total + len(chunk)
                if before <= self._cap < self._total:
                    self._on_overflow()


@dataclass(slots=True)
class Child:
    """A started process with its output captured."""

    process: subprocess.Popen[bytes]
    killed_for: list[str] = field(default_factory=list)
    """Reasons why the runner ended it: ``output``, ``memory``, ``time``; the first one counts. Or ``outside``."""
    stdout: OutputCapture | None = None
    stderr: OutputCapture | None = None
    prepared: sandbox.SandboxedCommand | None = None
    """Its sandbox, None without one."""
    folder: Path = Path()
    """Its working folder, by the name that it sees."""
    _stored_bytes: int = 0
    _look_again: float = 0.0

    def kill(self, reason: str) -> None:
        """End the process and all its descendants."""
        if self.process.poll() is None:
            self.killed_for.append(reason)
        kill_tree(self.process.pid)

    def abort(self) -> None:
        """Make a hanging Python process print its stack, and end it."""
        # The first process of a sandbox is not the program.
        for pid in [self.process.pid, *descendants(self.process.pid)][self.prepared is not None :]:
            with contextlib.suppress(OSError):
                if "bwrap" not in Path("/proc", str(pid), "comm").read_text():
                    os.kill(pid, signal.SIGABRT)
                    break
        wait_for_end(self.process.pid, ABORT_S)

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, negative for a signal, or None while it still runs."""
        if self.process.poll() is None:
            wait_for_end(self.process.pid, timeout_s)
        code = self.process.poll()
        if code is None:
            return None
        if self.prepared is None:
            return code
        self._leave_group()
        if code < 0 and is_killed(code) and not self.killed_for and sandbox.has_own_names():
            self.killed_for.append("outside")  # its outer process, which none inside can reach
        # A sandbox, like a shell, reports a signal as 128 plus its number.
        return 128 - code if 128 < code <= 128 + signal.SIGRTMAX else code

    def was_killed(self, timeout_s: float = 0.0) -> bool:
        """Return whether it was ended by a signal that neither a fault of its own nor the runner has sent."""
        return is_killed(self.wait(timeout_s)) and self.killed_for in ([], ["outside"])

    def limit_output(self, *, keep: int, cap: int) -> None:
        """Set how much of its output is kept, and how much it may print."""
        for capture in (self.stdout, self.stderr):
            if capture is not None:
                capture.limit(keep=keep, cap=cap)

    def limit_memory(self, memory_bytes: int) -> None:
        """Limit its memory by its control group, if it has one."""
        if self.prepared is not None and self.prepared.group is not None:
            self.prepared.group.limit_memory(memory_bytes)

    def stored_bytes(self, besides: Sequence[int] = ()) -> int:
        """Return the bytes of memory or disk used by the files that it has written in its sandbox.

        Files in memory without a name count too, but those that the processes ``besides`` have open.
        """
        if self.prepared is not None and time.monotonic() >= self._look_again:
            began = time.monotonic()
            pid = self.process.pid
            self._stored_bytes = disk_usage.used(self.prepared, pid)
            self._stored_bytes += disk_usage.open_memory([pid, *descendants(pid)], besides)
            # Very many files must not keep the runner busy counting them.
            self._look_again = began + LOOKING_SHARE * (time.monotonic() - began)
        return self._stored_bytes

    def _leave_group(self) -> None:
        """Check whether it was killed for its memory, and remove the control group."""
        group = self.prepared.group if self.prepared is not None else None
        if group is not None and group.exists():
            if group.ran_out_of_memory() and not self.killed_for:
                self.killed_for.append("memory")
            group.remove()


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    fds: Sequence[int] = (),
    keep_output: int,
    cap_output: int,
    box: sandbox.Sandbox | None = None,
) -> Child:
    """Start a process in a session of its own with captured output and only the named descriptors.

    With ``box`` it runs in a sandbox, whose working folder takes the place of ``cwd``.
    """
    prepared = sandbox.SandboxedCommand(argv=list(argv))
    if box is not None:
        prepared = sandbox.prepare(box, argv, environment)
    process = subprocess.Popen(
        prepared.argv,
        cwd=prepared.work or cwd,
        env=dict(environment if prepared.environment is None else prepared.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(*fds, *prepared.fds),
        start_new_session=True,
    )
    prepared.close()
    folder = prepared.folder_inside or (prepared.work or cwd).resolve()
    child = Child(process, prepared=prepared if box is not None else None, folder=folder)
    assert process.stdout is not None
    assert process.stderr is not None

    def overflow() -> None:
        child.kill("output")

    child.stdout = OutputCapture(process.stdout, keep=keep_output, cap=cap_output, on_overflow=overflow)
    child.stderr = OutputCapture(process.stderr, keep=keep_output, cap=cap_output, on_overflow=overflow)
    return child


def wait_for_end(pid: int, timeout_s: float) -> None:
    """Return as soon as a process has ended or the time is over; ``Popen.wait`` would sleep in steps."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(1000.0 * timeout_s)
    finally:
        os.close(pidfd)


def python_argv(module: str, function: str, *arguments: str) -> list[str]:
    """Return the command line that calls ``module.function(*arguments)`` of this package.

    Isolated mode keeps the working folder, user site and PYTHON* variables out.
    """
    root = str(ROOT)
    call = f"from {module} import {function}; {function}(*sys.argv[1:])"
    code = f"import sys; sys.path.insert(0, {root!r}); {call}"
    return [sys.executable, "-I", "-B", "-u", "-c", code, *arguments]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Import without the garbage collector, which finds nothing then: a third of the time that torch takes."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def parents() -> dict[int, int]:
    """Return process id to parent id for all visible processes."""
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # A run reads this fifty times, all processes of the machine each time: `Path` takes four times as long.
                file = os.open(f"/proc/{entry}/stat", os.O_RDONLY)
                try:
                    stat = os.read(file, STAT_BYTES)
                finally:
                    os.close(file)
                found[int(entry)] = int(stat.rpartition(b")")[2].split()[1])
    return found


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below ``pid``, without itself."""
    return below(pid, parents())


def below(pid: int, family: Mapping[int, int]) -> list[int]:
    """Return the ids of all processes below ``pid``, given the result of :func:`parents`."""
    found: list[int] = []
    front = {pid}
    while front:
        front = {child for child, parent in family.items() if parent in front}
        found.extend(front)
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL a process, its process group and all its descendants."""
    targets = [pid, *descendants(pid)]
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for target in targets:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(target, signal.SIGKILL)


def kill_descendants(
    *, rounds: int = 20, spare: Collection[int] = frozenset(), keep: Collection[int] = frozenset()
) -> None:
    """SIGKILL everything below this process, orphans included, and reap it.

    The caller kills and reaps those in ``spare``; their descendants are killed here. Those in ``keep``
    keep running with everything that they have started.
    """
    for number_of_round in range(rounds):
        time.sleep(0.001 * ((1 << min(number_of_round, 6)) - 1))
        family = parents()  # read once for all: kept processes may start something at any moment
        kept = {*spare, *keep, *(pid for each in keep for pid in below(each, family))}
        remaining = [pid for pid in below(os.getpid(), family) if pid not in kept]
        if not remaining:
            return
        # A stopped process starts no new ones while the others are being killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in remaining:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        for pid in remaining:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def used_memory(child: Child) -> int:
    """Return the bytes of private memory of a process and its descendants, and of the files they have written."""
    return private_memory(child.process.pid) + child.stored_bytes()


def private_memory(pid: int) -> int:
    """Return the bytes of private memory of a process and its descendants.

    Shared memory is left out: the slots belong to the judge.
    """
    return sum(status_bytes(each, "RssAnon:") for each in [pid, *descendants(pid)])


def shared_memory(pid: int) -> int:
    """Return the bytes of shared memory that a process and its descendants have touched."""
    return sum(status_bytes(each, "RssShmem:") for each in [pid, *descendants(pid)])


def status_bytes(pid: int, key: str) -> int:
    """Return one figure of /proc/PID/status in bytes, 0 for a process that is gone."""
    with contextlib.suppress(OSError):
        for line in Path("/proc", str(pid), "status").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


def total_memory() -> int:
    """Return the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
