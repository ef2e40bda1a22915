"""Forks processes of one that has imported torch and done nothing else, in milliseconds.

The child of a process that has a context on a GPU cannot use the GPU, and that of one in which PyTorch's threads have
run waits for them forever. So the judge is forked once, before it does either, and its copy forks on request.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kernelcup_harness.isolation import processes

MOST_DESCRIPTORS = 1 << 16


class ForkServer:
    """Started by the constructor, in a process with one thread and without a context on a device.

    Args:
        serve: What a forked process does with its end of a socket.
    """

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._requests, theirs = socket.socketpair()
        in_child(theirs, partial(fork_on_request, serve))

    def fork(self) -> socket.socket:
        """Have a process forked, without waiting; return a socket to it. It is closed where there is no process."""
        ours, theirs = socket.socketpair()
        with theirs, suppress(OSError):
            socket.send_fds(self._requests, [b"f"], [theirs.fileno()])
        return ours


def fork_on_request(serve: Callable[[socket.socket], None], requests: socket.socket) -> None:
    """Fork a process for each request, until the judge is gone. Processes that have ended are reaped by the next."""
    while fds := socket.recv_fds(requests, 1, 1)[1]:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        in_child(socket.socket(fileno=fds[0]), serve)


def in_child(end: socket.socket, work: Callable[[socket.socket], None]) -> None:
    """Do work in a process that has a socket and no other descriptor, whose prints are lost, and that ends with us."""
    parent = os.getpid()
    if os.fork():
        end.close()
        return
    try:
        processes.die_with_parent(parent)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os.closerange(3, end.fileno())
        os.closerange(end.fileno() + 1, MOST_DESCRIPTORS)
        work(end)
    finally:
        # Whatever was raised, nothing that is the parent's is done here.
        os._exit(0)
