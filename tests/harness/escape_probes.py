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
from functools import partial
from typing import Any

CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, SIGCHLD = (
    0x10000000,
    0x20000,
    0x20000000,
    0x40000000,
    17,
)
NONSENSE = 2**64 - 1


def attempt(targets: dict[str, Any]) -> dict[str, str]:
    """Try everything, a group after the other."""
    tries = {**files(targets), **processes(targets), **system_calls(targets), **connections(targets)}
    return {name: outcome(each) for name, each in tries.items()}


def files(targets: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the attempts at files and folders of the host."""
    return {
        **{f"read {path}": partial(first_byte, path) for path in targets["readable"]},
        **{f"list {path}": partial(listing, path, targets["names"]) for path in targets["folders"]},
        **{f"write {path}": partial(open_for_writing, path) for path in targets["writable"]},
    }


def processes(targets: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the attempts at other processes."""
    found: dict[str, Callable[[], object]] = {}
    for path in targets["environments"]:
        found[f"environment {path}"] = partial(variables, path, targets["variables"])
    for pid in targets["processes"]:
        found[f"signal {pid}"] = partial(os.kill, pid, 0)
        for name in ("mem", "maps", "environ", "cwd/.", "root/etc", "fd"):
            path = f"/proc/{pid}/{name}"
            found[f"look into {path}"] = partial(look, path)
    return found


def system_calls(targets: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the attempts at system calls.

    With arguments that none of them takes: where a call is let through it fails for these, and does
    nothing to the machine.
    """
    found: dict[str, Callable[[], object]] = {}
    for name, number in targets["calls"].items():
        found[f"call {name}"] = partial(system_call, number, *[NONSENSE] * 6)
    for name, flag in targets["clone_flags"].items():
        found[f"clone {name}"] = partial(clone, targets["clone"], flag)
    return found


def connections(targets: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the attempts to talk to anybody."""
    found: dict[str, Callable[[], object]] = {}
    for name, (family, kind, address) in targets["addresses"].items():
        found[f"connect {name}"] = partial(connect, family, kind, address)
    for name, (kind, address) in targets["pairs"].items():
        found[f"from a pair to {name}"] = partial(from_a_pair, kind, address)
    return found


def outcome(attempted: Callable[[], object]) -> str:
    """Say what came of one."""
    try:
        attempted()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "open"


def first_byte(path: str) -> None:
    """Read the beginning of a file."""
    with open(path, "rb") as file:
        file.read(1)


def open_for_writing(path: str) -> None:
    """Open a file for writing, without writing anything."""
    with open(path, "ab"):
        pass


def listing(path: str, names: list[str]) -> None:
    """List a folder. Raise ``OSError`` where none of the names is there."""
    none_of(os.listdir(path), names)


def variables(path: str, names: list[str]) -> None:
    """Read the environment of a process. Raise ``OSError`` where none of the names is in it."""
    with open(path, "rb") as file:
        none_of(file.read().decode("utf-8", "replace").split("\0"), names)


def none_of(found: list[str], sought: list[str]) -> None:
    """Raise the error of a place where none of what is sought can be seen."""
    if not any(each in text for each in sought for text in found):
        raise OSError(errno.ENODATA, "nothing of the host's")


def look(path: str) -> None:
    """List a folder, or read a byte of a file."""
    if os.path.isdir(path):
        os.listdir(path)
    else:
        first_byte(path)


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
