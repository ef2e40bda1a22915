"""The untrusted processes of a submission on several GPUs: forked in one sandbox, one for each GPU rank."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import torch

from kernelcup_harness.device import accelerators
from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol.variables import RANKS
from kernelcup_harness.wire import devices
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.messages import Split, unpack


def split(channel: Channel, serve: Callable[[Channel], None], *, max_bytes: int) -> None:
    """Fork a process for each GPU rank, and end as the first of them that fails.

    The channel of each rank comes over ``channel``; this process runs no code of the submission.
    """
    try:
        ranks = unpack(Split, channel.receive()).ranks
    except (ChannelClosed, BrokenProtocol):
        os._exit(processes.CHANNEL_LOST)
    fds = channel.take_fds()
    started = {fork(fds, rank, serve, max_bytes): rank for rank in range(min(ranks, len(fds)))}
    for fd in fds:
        os.close(fd)
    while started:
        process, status = os.wait()
        rank = started.pop(process, None)
        code = os.waitstatus_to_exitcode(status)
        if rank is None or code == processes.CHANNEL_LOST:
            continue
        if code < 0:
            signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -code)
        if code:
            os._exit(code)
    os._exit(processes.CHANNEL_LOST)


def fork(fds: list[int], rank: int, serve: Callable[[Channel], None], max_bytes: int) -> int:
    """Fork the process of one GPU rank; return its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        for number, fd in enumerate(fds):
            if number != rank:
                os.close(fd)
        # Not before the fork: a process cannot use a driver that its parent has started.
        del os.environ[RANKS]
        accelerators.here().start()
        if devices.on_gpu():
            torch.cuda.set_device(rank)
        serve(Channel.from_fd(fds[rank], max_bytes=max_bytes))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)
