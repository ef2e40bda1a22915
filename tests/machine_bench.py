"""This machine with a harness that says what tests want: for launchers that judge on it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelcup.launchers.bundle import PACKAGE
from kernelcup.launchers.local import harness_output
from kernelcup.launchers.local import launcher as local
from kernelcup.launchers.local.harness_output import LineBuffer
from kernelcup.launchers.local.launcher import LocalLauncher

# A harness that writes what it is given through a named pipe, until it is told to end or its parent has ended.
HARNESS = """
import ctypes, json, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: what --die-with-parent does
spec = json.load(sys.stdin)
name = f"{sys.argv[1]}/{spec['job_id']}"
with open(name + ".pid", "w") as file:
    print(os.getpid(), file=file)
os.mkfifo(name + ".pipe")
pipe = os.fdopen(os.open(name + ".pipe", os.O_RDWR))
os.rename(name + ".pid", name + ".up")
while (line := pipe.readline()) != "end\\n":
    sys.stdout.write(line)
    sys.stdout.flush()
"""


class MachineBench:
    """A machine whose jobs are known by their ids."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.ahead_s = 0.0
        monkeypatch.setattr(
            harness_output,
            "time",
            SimpleNamespace(monotonic=lambda: time.monotonic() + self.ahead_s, sleep=time.sleep),
        )

    def make(self, package: Path = PACKAGE) -> LocalLauncher:
        """Return a launcher of this machine."""
        command = (sys.executable, "-c", HARNESS, str(self.folder))
        return LocalLauncher(
            runtime_dir=self.folder / "run", environ=os.environ, command=command, package=package
        )

    def path(self, job: str, suffix: str) -> Path:
        """Return a file of a job."""
        return self.folder / f"{job}.{suffix}"

    def is_up(self, job: str) -> bool:
        """Return whether the harness has begun."""
        return self.path(job, "up").exists()

    def write(self, job: str, *lines: str) -> None:
        """Have the harness write lines, if it still runs."""
        with suppress(OSError):  # nobody reads: the process is gone
            file = os.open(self.path(job, "pipe"), os.O_WRONLY | os.O_NONBLOCK)
            os.write(file, "".join(line + "\n" for line in lines).encode())
            os.close(file)

    def tell(self, job: str, event: dict[str, Any]) -> None:
        """Have the harness report an event."""
        self.write(job, json.dumps(event))

    def report(self, job: str, report: Any) -> None:
        """Have the harness report and end."""
        self.write(job, json.dumps({"report": report}), "end")

    def report_too_much(self, job: str) -> None:
        """Have the harness write more than is read."""
        self.monkeypatch.setattr(LineBuffer.__init__, "__defaults__", (1000,))
        self.write(job, "x" * 2000)

    def use_harness(self, harness: str) -> None:
        """As if the files of the harness were replaced while it runs."""
        self.monkeypatch.setattr(local, "harness_hash", lambda _package: harness)

    def kill(self, job: str) -> None:
        """End the harness."""
        os.kill(self.pid(job), signal.SIGKILL)

    def pid(self, job: str) -> int:
        """Return the process of a job that is up."""
        return int(self.path(job, "up").read_text())

    def is_running(self, job: str) -> bool:
        """Return whether the harness lives."""
        try:
            stat = Path(f"/proc/{self.pid(job)}/stat").read_text()
        except FileNotFoundError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"
