"""Identify the process that holds a lease, so that others can find out whether it still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

PROC = Path("/proc")


def current_owner() -> str:
    """Return the name of this process: host, boot, process namespace, process id, start time."""
    return f"{_machine()}:{os.getpid()}:{_start_time(os.getpid()) or '?'}"


def is_gone(owner: str) -> bool:
    """Return whether the owner was a process of this machine that has certainly ended.

    Return False for other machines and containers, whose leases have to expire.
    """
    machine, _, process = owner.rpartition(":")
    machine, _, pid = machine.rpartition(":")
    if not pid.isdecimal() or not machine or "?" in (process, *machine.split(":")):
        return False
    here, there = _machine().split(":"), machine.split(":")
    if here == there:
        return _start_time(int(pid)) != process
    return len(there) == 3 and here[0] == there[0] and here[2] == there[2] and here[1] != there[1]


def _machine() -> str:
    host = socket.gethostname().replace(":", "_") or "?"
    return f"{host}:{_boot_id()}:{_namespace()}"


def _boot_id() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "?"


def _namespace() -> str:
    try:
        return str((PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return "?"


def _start_time(pid: int) -> str | None:
    """Return when a process began, in ticks since the boot; None if it is gone or a zombie."""
    try:
        # the second field, the name in brackets, may hold anything
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, start_time = fields[0], fields[19]
    return None if state in ("Z", "X") else start_time
