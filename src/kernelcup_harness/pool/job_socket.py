"""The runner's end of a pool: a waiting runner gets its job here."""

from __future__ import annotations

import array
import os
import socket
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_FDS = 64
JOB = b"J"


def read_job(job: str) -> bytes | None:
    """Wait for the job's text; None if standard input ends without one.

    ``-`` is standard input: a socket that carries the job's file, or else the text itself.
    """
    if job != "-":
        return Path(job).read_bytes()
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return sys.stdin.buffer.read() or None
    with socket.socket(fileno=os.dup(0)) as source:
        fds = receive(source)
    if not fds:
        return None
    # The other descriptors are a slot's locks: the slot stays taken for as long as this process lives.
    with open(fds[0], "rb") as file:
        file.seek(0)
        return file.read()


def receive(source: socket.socket) -> list[int]:
    """Return the descriptors that come with the first byte, none at the end of the stream."""
    _, fds, _, _ = socket.recv_fds(source, len(JOB), MOST_FDS, socket.MSG_CMSG_CLOEXEC)
    return fds


def send(target: socket.socket, job: int, kept: Sequence[int] = ()) -> None:
    """Send a runner a job's file and the descriptors it has to keep open. Raise ``OSError`` if it is gone."""
    fds = array.array("i", [job, *kept])
    target.sendmsg([JOB], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
