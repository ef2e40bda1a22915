"""Finds and kills what dead runners left behind."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

MARK = "KERNELCUP_RUNNER"
"""The variable that marks processes without a namespace of their own, which do not end with their runner."""


def namespace() -> str:
    """Return the id of the process namespace: runners with different ids see different process ids."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def owner() -> str:
    """Return the name of this runner: its namespace and its process id."""
    return f"{namespace()}-{os.getpid()}"


def is_orphan(name: str) -> bool:
    """Return whether the runner of that name was in this namespace and is gone."""
    space, _, pid = name.partition("-")
    return space == namespace() and pid.isdigit() and not Path("/proc", pid).exists()


def end_orphans() -> None:
    """SIGKILL the processes that dead runners left running, if they still carry their mark."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if is_orphan(mark_of(Path("/proc", pid, "environ").read_bytes())):
                os.kill(int(pid), signal.SIGKILL)


def mark_of(environment: bytes) -> str:
    """Return the mark in the text of an environment, empty without one."""
    begin = f"{MARK}=".encode()
    lines = environment.split(b"\0")
    return next(
        (line[len(begin) :].decode("ascii", "replace") for line in lines if line.startswith(begin)), ""
    )
