"""Attempts to get out of a sandbox. The text of this file is put in front of foreign code of a job.

Standard library only. :func:`attempt` tries all that it is given and says of each what came of it:
``open`` for whatever has worked, else the name of the error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, SIGCHLD = (
    0x10000000,
    0x20000,
    0x20000000,
    0x40000000,
    17,
)
X32_GETPID = 0x40000000 | 39


def attempt(targets: dict[str, Any]) -> dict[str, str]:
    """Try everything, a group after the other."""
    tries: dict[str, Callable[[], object]] = {}
    for path in targets["readable"]:
        tries[f"read {path}"] = lambda path=path: open(path, "rb").read(1)
    for path in targets["folders"]:
        tries[f"list {path}"] = lambda path=path: none_of(os.listdir(path), targets["names"])
    for path in targets["writable"]:
        tries[f"write {path}"] = lambda path=path: open(path, "ab")
    for path in targets["environments"]:
        tries[f"environment {path}"] = lambda path=path: none_of(
            open(path, "rb").read().decode("utf-8", "replace").split("\0"), targets["variables"]
        )
    for pid in targets["processes"]:
        tries[f"signal {pid}"] = lambda pid=pid: os.kill(pid, 0)
        for name in ("mem", "maps", "environ", "cwd/.", "root/etc", "fd"):
            path = f"/proc/{pid}/{name}"
            tries[f"look into {path}"] = lambda path=path: look(path)
    for name, number in targets["calls"].items():
        tries[f"call {name}"] = lambda number=number: system_call(number, 0, 0, 0, 0, 0, 0)
    for name, flag in targets["clone_flags"].items():
        tries[f"clone {name}"] = lambda flag=flag: clone(targets["clone"], flag)
    for name, (family, kind, address) in targets["addresses"].items():
        tries[f"connect {name}"] = lambda family=family, kind=kind, address=address: connect(
            family, kind, address
        )
    for name, (kind, address) in targets["pairs"].items():
        tries[f"from a pair to {name}"] = lambda kind=kind, address=address: from_a_pair(kind, address)
    return {name: outcome(each) for name, each in tries.items()}


def outcome(attempted: Callable[[], object]) -> str:
    """Say what came of one."""
    try:
        attempted()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "open"


def none_of(found: list[str], sought: list[str]) -> None:
    """Raise the error of a place where none of what is sought can be seen."""
    if not any(each in text for each in sought for text in found):
        raise OSError(errno.ENODATA, "nothing of the host's")


def look(path: str) -> None:
    """List a folder, or read a byte of a file."""
    if os.path.isdir(path):
        os.listdir(path)
    else:
        open(path, "rb").read(1)


def system_call(number: int, *arguments: int) -> int:
    """Make a system call by its number. Raise ``OSError`` for one that fails."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    result = library.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "denied")
    return int(result)


def clone(number: int, flag: int) -> None:
    """Make a child in a namespace of its own."""
    if system_call(number, flag | SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def connect(family: int, kind: int, address: Any) -> None:
    """Connect to an address."""
    with socket.socket(family, kind) as connection:
        connection.settimeout(3)
        if address is not None:
            connection.connect(tuple(address) if isinstance(address, list) else address)


def from_a_pair(kind: int, address: str) -> None:
    """Send to an address, or connect to it, with a socket that was made as one of a pair."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs:
        try:
            ours.sendto(b"x", address)
        except OSError:
            ours.connect(address)
