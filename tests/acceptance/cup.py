"""The command line as its users have it: a process, a home of its own, the emulated device.

Commands that run to their end begin as copies of this process, in which they are imported already:
importing them takes longer than most of them take. Those that tests interrupt are started from nothing.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

import kernelcup.cli.backend.local  # noqa: F401  (what most commands import once they run)
from kernelcup.cli import entry
from kernelcup_harness.isolation import sandbox

COMMAND = str(Path(sys.executable).with_name("kernelcup"))


@dataclass(frozen=True, kw_only=True)
class Cup:
    """Runs ``kernelcup`` in a folder of its own, where its data is too."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """All that the processes see of ours."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "USER": "ada",
            "LANG": "C.UTF-8",
            "KERNELCUP_HOME": str(self.folder / "data"),
            "KERNELCUP_RUNTIME": str(self.folder / "locks"),
            "KERNELCUP_CONFIG": str(self.folder / "kernelcup.toml"),
            **{name: text for name, text in os.environ.items() if name == sandbox.VARIABLE},
        }

    def __call__(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must have that exit code."""
        done = run_a_copy(args, self.folder, self.environ)
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback (most recent call last)" not in done.stderr
        return done

    def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        """Run a command with ``--json`` and return the one object that it prints."""
        done = self(*args, "--json", code=code)
        body = json.loads(done.stdout)
        assert isinstance(body, dict)
        assert done.stdout.count("\n") == 1
        assert done.stderr == ""
        return body

    @contextmanager
    def started(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command; what is left of it at the end of the block is killed."""
        with interruptible():
            begun = subprocess.Popen(
                [COMMAND, *args],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        with begun as process:
            try:
                yield process
            finally:
                process.kill()

    def write(self, name: str, text: str) -> str:
        """Write a file and return its name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


def run_a_copy(
    args: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Do what :func:`subprocess.run` does with the command, without output through pipes."""
    with TemporaryFile("w+b") as out, TemporaryFile("w+b") as err, open(os.devnull, "rb") as nothing:
        pid = os.fork()
        if pid == 0:
            be_the_command(args, folder, environ, [each.fileno() for each in (nothing, out, err)])
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = [(each.seek(0), each.read().decode())[1] for each in (out, err)]
    return subprocess.CompletedProcess([COMMAND, *args], code, *texts)


def be_the_command(
    args: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Sequence[int]
) -> NoReturn:
    """Be ``kernelcup ARGS`` in this process, which was forked, and end."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 1 << 16)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        logging.getLogger().handlers = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
        sys.argv = [COMMAND, *args]
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        entry.run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


@contextmanager
def interruptible() -> Iterator[None]:
    """Start processes that SIGINT ends, also where ours ignores it, as under ``nohup make test &``."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def read_until(stream: Any, text: str) -> str:
    """Return what a process wrote up to and with the line that has ``text``."""
    seen = ""
    for line in stream:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"ended without {text!r}:\n{seen}")


@contextmanager
def watched_descendants(pid: int) -> Iterator[list[int]]:
    """Hold on to all processes below one, in a way that cannot mistake another for them later."""
    handles = []
    try:
        for each in descendants(pid):
            try:
                handles.append(os.pidfd_open(each))
            except ProcessLookupError:
                continue
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def descendants(pid: int) -> list[int]:
    """Return the process ids below one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found
