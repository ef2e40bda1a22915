"""Whose something is that a runner may have left behind, and the end of processes that nobody owns."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

MARK = "KERNELCUP_RUNNER"
"""The variable by which a process is known that no namespace of its own ends with its runner."""


def namespace() -> str:
    """Return what tells apart runners that see different process ids."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def owner() -> str:
    """Return the name of this runner: its namespace and its process id."""
    return f"{namespace()}-{os.getpid()}"


def is_orphan(name: str) -> bool:
    """Tell whether a runner of that name was one of this namespace and is gone."""
    space, _, pid = name.partition("-")
    return space == namespace() and pid.isdigit() and not Path("/proc", pid).exists()


def end_orphans() -> None:
    """SIGKILL what runners that were killed have left running, as far as it still carries their mark."""
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
