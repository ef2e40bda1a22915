"""Calls that act on a process by its id, tried from inside a sandbox on a process outside: ``script.py PID TABLE``.

Standard library only. Prints what was not refused, then what the sandbox's own process and its threads can do.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading

HIGH = 1 << 32
"""A bit that the kernel does not look at: an id of a process has 32."""

library = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> str:
    """Make a system call; return the name of its error, ``open`` if it succeeds."""
    library.syscall.restype = ctypes.c_long
    passed = [
        each if isinstance(each, ctypes.Array) else ctypes.c_ulong(int(str(each))) for each in arguments
    ]
    if library.syscall(ctypes.c_long(number), *passed) >= 0:
        return "open"
    return errno.errorcode[ctypes.get_errno()]


def attempts(pid: int, calls: dict[str, int]) -> dict[str, str]:
    """Return what came of each call on a process."""
    nothing, one = ctypes.create_string_buffer(8), ctypes.create_string_buffer(b"\x01" + bytes(7), 8)
    info = ctypes.create_string_buffer(bytes(8) + b"\xff\xff\xff\xff" + bytes(116), 128)  # si_code: SI_QUEUE
    batch = ctypes.create_string_buffer(bytes([48, 0, 0, 0, 3, 0, 0, 0]) + bytes(40), 48)
    files, limit = resource.RLIMIT_NOFILE, ctypes.create_string_buffer(struct.pack("QQ", 512, 512), 16)
    priority = ctypes.create_string_buffer(4)
    arguments: dict[str, list[tuple[object, ...]]] = {
        "kill": [(pid, 0), (pid, signal.SIGCONT)],
        "tkill": [(pid, 0)],
        "tgkill": [(pid, pid, 0)],
        "rt_sigqueueinfo": [(pid, signal.SIGCONT, info)],
        "rt_tgsigqueueinfo": [(pid, pid, signal.SIGCONT, info)],
        "prlimit64": [(pid, files, limit, 0), (pid | HIGH, files, limit, 0), (pid, files, 0, limit)],
        "setpriority": [(0, pid, 19), (0, pid | HIGH, 19), (1, 0, 19), (2, 0, 19), (2, os.getuid(), 19)],
        "ioprio_set": [(1, pid, 3 << 13), (2, 0, 3 << 13), (3, os.getuid(), 3 << 13)],
        "migrate_pages": [(pid, 8, one, one)],
        "move_pages": [(pid, 0, 0, 0, 0, 0)],
        "sched_setaffinity": [(pid, 8, one)],
        "sched_setscheduler": [(pid, 3, priority)],
        "sched_setparam": [(pid, priority)],
        "sched_setattr": [(pid, batch, 0)],
        "get_robust_list": [(pid, nothing, nothing)],
        "setpgid": [(pid, pid)],
        "ptrace": [(0x4206, pid, 0, 0)],
        "kcmp": [(pid, os.getpid(), 0, 0, 0)],
        "process_vm_readv": [(pid, nothing, 0, nothing, 0, 0)],
        "process_vm_writev": [(pid, nothing, 0, nothing, 0, 0)],
        "pidfd_open": [(pid, 0)],
        "perf_event_open": [(nothing, pid, -1, -1, 0)],
    }
    assert arguments.keys() == calls.keys(), arguments.keys() ^ calls.keys()
    return {
        f"{name} {place}": call(calls[name], *each)
        for name, every in arguments.items()
        for place, each in enumerate(every)
    }


def own_business() -> list[str]:
    """Return what the process cannot do to itself, its threads and its children."""
    wrong = []
    least = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {least})
    wrong += ["affinity"] * (os.sched_getaffinity(0) != {least})
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    wrong += ["priority"] * (os.getpriority(os.PRIO_PROCESS, 0) != 5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    wrong += ["limit"] * (resource.prlimit(0, resource.RLIMIT_NOFILE) != (64, 64))
    pinned: list[int] = []
    mask = ctypes.create_string_buffer(b"\x01" + bytes(127), 128)
    thread = threading.Thread(
        target=lambda: pinned.append(
            library.pthread_setaffinity_np(ctypes.c_ulong(threading.get_ident()), 128, mask)
        )
    )
    thread.start()
    thread.join()
    wrong += [f"a thread: {pinned}"] * (pinned != [0])
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]) as child:
        child.kill()
    return wrong


def main() -> None:
    """Print both."""
    found = attempts(int(sys.argv[1]), json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps({"tried": found, "wrong": own_business()}))


main()
