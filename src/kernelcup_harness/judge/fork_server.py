"""Forks processes of a process that has imported torch and nothing else, in milliseconds.

A child of a process that has a context on a GPU cannot use the GPU, and one of a process in which PyTorch's threads
have run waits for them forever. So the judge is forked once, before it does any of that, and its copy forks on request.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kernelcup_harness.isolation import processes
from kernelcup_harness.wire.channel import Channel, ChannelClosed
from kernelcup_harness.wire.job_messages import Fork
from kernelcup_harness.wire.messages import pack, unpack

MAX_FRAME = 256 << 20
MOST_DESCRIPTORS = 1 << 16


class ForkServer:
    """Started by the constructor, in a process with one thread and without a context on a device.

    Args:
        serve: What each forked process does with its channel.
    """

    def __init__(self, serve: Callable[[Channel], None]) -> None:
        ours, theirs = socket.socketpair()
        in_child(theirs, lambda: fork_on_request(Channel(theirs, max_bytes=MAX_FRAME), serve))
        theirs.close()
        self._channel = Channel(ours, max_bytes=0)

    def fork(self, *, max_bytes: int) -> Channel:
        """Fork a process with this one's variables and module path; return the channel to it.

        Args:
            max_bytes: Limit of a frame that it sends.

        It does not wait. A channel that is closed at the other end says that there is no process.
        """
        ours, theirs = socket.socketpair()
        with theirs, suppress(ChannelClosed):
            request = Fork(environment=dict(os.environ), path=sys.path)
            self._channel.send(pack(request), [theirs.fileno()])
        return Channel(ours, max_bytes=max_bytes, max_fds=0)


def fork_on_request(channel: Channel, serve: Callable[[Channel], None]) -> None:
    """Fork a process for each request, until the judge is gone. Processes that have ended are reaped by the next."""
    while True:
        request = unpack(Fork, channel.receive())
        while reaped():
            pass
        (fd,) = channel.take_fds()
        theirs = socket.socket(fileno=fd)
        os.environ.clear()
        os.environ.update(request.environment)
        sys.path[:] = request.path
        in_child(theirs, partial(serve, Channel(theirs, max_bytes=MAX_FRAME)))
        theirs.close()


def reaped() -> bool:
    """Reap one process that has ended; return whether there was one."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def in_child(end: socket.socket, work: Callable[[], None]) -> None:
    """Do work in a forked process that has one end of a socket and no other descriptor, and ends with this process.

    What it prints is lost: nobody limits it.
    """
    parent = os.getpid()
    if os.fork():
        return
    try:
        processes.die_with_parent(parent)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os.closerange(3, end.fileno())
        os.closerange(end.fileno() + 1, MOST_DESCRIPTORS)
        work()
    finally:
        # Whatever was raised, nothing of the parent's is done here.
        os._exit(0)
