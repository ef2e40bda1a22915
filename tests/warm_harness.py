"""Runs of the harness in which torch is imported already: importing it is most of what a short run takes.

Judge and contestant, or a task's own harness, are processes of their own as ever, each with its folder,
environment, output and limits. But they begin as copies of a process that waits with torch imported, and
there is no sandbox: a copy cannot enter one. So this is for tests of what is judged, not of what keeps
processes apart.

As a program, this is the process that waits.
"""

from __future__ import annotations

import dataclasses
import gc
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import kernelcup_harness
from kernelcup_harness.isolation import processes, sandbox
from kernelcup_harness.isolation.job_environment import backend_environment
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    RunReport,
    SandboxPolicy,
    dumps,
    from_json,
    loads,
    to_json,
)
from kernelcup_harness.run import empty_call, runner

Run = Callable[[JobSpec], RunReport]
ON_AN_IDLE_MACHINE = """\
import sys
from kernelcup_harness.__main__ import main
from kernelcup_harness.run import empty_call

empty_call.trouble = lambda: ""
sys.exit(main())
"""
IDLE_HARNESS = (sys.executable, "-P", "-c", ON_AN_IDLE_MACHINE)
"""The harness, which takes the machine for idle: other tests may keep it busy."""


@contextmanager
def waiting() -> Iterator[Run]:
    """Start the process that waits; yield what runs a job."""
    environment = processes.clean_environment(None, os.environ) | backend_environment(Backend.EMULATED)
    environment |= {"TMPDIR": os.environ.get("TMPDIR", "/tmp"), "HOME": "/tmp", sandbox.VARIABLE: "none"}
    # The harness that these tests import, which need not be the one that is installed.
    environment["PYTHONPATH"] = str(Path(kernelcup_harness.__file__).parent.parent)
    command = [sys.executable, "-P", "-s", "-B", str(Path(__file__).resolve())]
    process: subprocess.Popen[str] | None = None

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(spec: JobSpec) -> RunReport:
        nonlocal process
        # Tests of builds and runners end what descends from the test's process, this one too.
        job = dumps(dataclasses.replace(spec, sandbox=SandboxPolicy.NONE)).replace("\n", " ")
        for _ in range(2):  # its end may be seen only when it does not answer
            if process is None or process.poll() is not None:
                ended(process)
                process = started()
            if line := answer(process, job):
                return from_json(RunReport, json.loads(line))
            process.wait()
        raise AssertionError("the process that waits has ended")

    try:
        yield run
    finally:
        ended(process)


def answer(process: subprocess.Popen[str], job: str) -> str:
    """Return the line that answers a job; nothing if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(job + "\n")
        process.stdin.flush()
    return process.stdout.readline()


def ended(process: subprocess.Popen[str] | None) -> None:
    """Close a process's pipes and wait for its end."""
    if process is not None:
        with suppress(BrokenPipeError):
            process.communicate()


def serve() -> None:
    """Fork a runner for each job that comes in."""
    import torch  # noqa: F401

    assert "triton" not in sys.modules  # it looks at the environment when it is imported
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run_one(line)
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("the runner of a job has failed")  # who waits for its report waits no longer


def run_one(line: str) -> None:
    """Be the runner of one job, and end."""
    code = 1
    try:
        processes.start = start
        empty_call.trouble = lambda: ""  # other tests may keep the machine busy
        report = runner.run_job(loads(JobSpec, line), lambda _event: None)
        os.write(1, json.dumps(to_json(report)).encode() + b"\n")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Forked:
    """What :class:`subprocess.Popen` says of a process, of one that was forked."""

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = os.fdopen(stdout, "rb", 0)
        self.stderr = os.fdopen(stderr, "rb", 0)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.returncode = 0  # as Popen does when somebody else has asked
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the end."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("forked", timeout)
            time.sleep(0.002)
        return code


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    fds: Sequence[int] = (),
    keep_output: int,
    cap_output: int,
    box: sandbox.Sandbox | None = None,
) -> processes.Child:
    """Fork what ``isolation.processes.start`` starts: the Python code or file of a command line."""
    assert box is None
    if argv[1:5] == ["-I", "-B", "-u", "-c"]:
        code, name, arguments = argv[5], "-c", argv[6:]
    else:  # a task's own harness
        name, arguments = argv[1], argv[2:]
        code = (cwd / name).read_text(encoding="utf-8")
    (stdout, their_stdout), (stderr, their_stderr) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            take_place((os.open(os.devnull, os.O_RDONLY), their_stdout, their_stderr), fds)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            execute(code, name, arguments)
        finally:
            os._exit(1)
    os.close(their_stdout)
    os.close(their_stderr)
    forked = Forked(pid, stdout, stderr)
    child = processes.Child(cast("subprocess.Popen[bytes]", forked), folder=cwd)
    child.stdout, child.stderr = (
        processes.OutputCapture(
            pipe, keep=keep_output, cap=cap_output, on_overflow=lambda: child.kill("output")
        )
        for pipe in (forked.stdout, forked.stderr)
    )
    return child


def take_place(streams: Sequence[int], fds: Sequence[int]) -> None:
    """Be in a session of its own, with these streams and descriptors and no other."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    kept = sorted({2, *fds})
    for fd, following in zip(kept, [*kept[1:], 1 << 16], strict=True):
        os.closerange(fd + 1, following)
    for fd in fds:
        os.set_inheritable(fd, True)
    sys.stdin = sys.__stdin__ = open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = unbuffered(1)
    sys.stderr = sys.__stderr__ = unbuffered(2)


def unbuffered(fd: int) -> io.TextIOWrapper:
    """Return a stream of text as ``python -u`` makes it."""
    raw = cast("Any", open(fd, "wb", 0))  # noqa: SIM115
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def execute(code: str, name: str, arguments: Sequence[str]) -> None:
    """Do what ``python -c CODE ARGUMENTS`` or ``python NAME ARGUMENTS`` does, and end.

    None of our modules is imported, and no object of the runner, which the stack still has, is of a class
    with a name that code finds objects by.
    """
    for each in [each for each in sys.modules if each.partition(".")[0] == "kernelcup_harness"]:
        for kind in [kind for kind in vars(sys.modules[each]).values() if isinstance(kind, type)]:
            if kind.__module__ == each:
                kind.__name__ = "Runners"
        del sys.modules[each]
    main = sys.modules["__main__"] = ModuleType("__main__")
    sys.argv = [name, *arguments]
    if name != "-c":
        main.__file__ = os.path.abspath(name)
        places = [os.path.dirname(main.__file__), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        sys.path[:0] = places
    ended = 1
    try:
        if name != "-c":
            runpy.run_path(os.path.join(places[1], "sitecustomize.py"))  # as each start of Python does
        exec(compile(code, "<string>" if name == "-c" else name, "exec"), main.__dict__)
        ended = 0
    except SystemExit as end:
        ended = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(ended)


if __name__ == "__main__":
    serve()
