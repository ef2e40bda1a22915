"""The command line as its users have it: a process, a home of its own, the emulated device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).with_name("kernelcup"))
LONGEST_S = 600.0


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
        }

    def __call__(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must have that exit code."""
        done = subprocess.run(
            [COMMAND, *args],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
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
