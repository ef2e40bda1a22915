"""The untrusted processes of a submission on several GPUs: forked in one sandbox, one for each GPU rank."""

from __future__ import annotations

import os
import signal

import torch

from kernelcup_harness.contestant.main import Contestant
from kernelcup_harness.device import accelerators
from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.sizes import RANKS
from kernelcup_harness.ranks import group
from kernelcup_harness.ranks.messages import GivePlaced, Join, Joined, Queue, Settle, Split, UseGate
from kernelcup_harness.ranks.placed import Gated
from kernelcup_harness.wire import devices, values
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.messages import Done, FailureKind, Given, Message, Returned, failed, unpack


class RankContestant(Contestant):
    """Answers the messages of the judge of one GPU rank."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self._gated = Gated(torch.cuda.current_device() if devices.on_gpu() else 0)
        self._answers |= {
            Join: self._join,
            UseGate: self._use_gate,
            GivePlaced: self._give_placed,
            Queue: self._queue,
            Settle: self._settled,
        }

    def _join(self, message: Join) -> Message:
        group.join(message.rank, message.world_size, message.port)
        return Joined()

    def _use_gate(self, message: UseGate) -> Message:
        gate, heap = self._channel.take_fds()
        return self._gated.use(gate, heap, message.heap_bytes)

    def _give_placed(self, message: GivePlaced) -> Message:
        slot = self._gated.slot
        for fd in self._channel.take_fds():
            slot.attach(fd, message.region_bytes)
        slot.describe(message.layout)
        self._expect(message.layout.answer)
        self._settle()
        return Given()

    def _queue(self, message: Queue) -> Message:
        """Queue a call behind the gate, and what brings its answer to the judge's memory."""
        slot = self._gated.slot
        slot.complete(message.leaves)
        self._settle()
        self._gated.queue(message.gate)
        with self._gated.in_heap():
            answer = self._gated.placed(self._called(slot))
        try:
            tree, table = self._gated.table_of(answer)
        except self._wire.CannotCarry as error:
            return failed(FailureKind.OUTPUT, str(error))
        return Done(ns=1.0, tree=tree, table=table)

    def _settled(self, _message: Settle) -> Message:
        self._settle()
        return Returned()


def split(channel: Channel, *, max_bytes: int) -> None:
    """Fork a process for each GPU rank, and end as the first of them that fails.

    The channel of each rank comes over ``channel``; this process runs no code of the submission.
    """
    try:
        ranks = unpack(Split, channel.receive()).ranks
    except (ChannelClosed, BrokenProtocol):
        os._exit(processes.CHANNEL_LOST)
    fds = channel.take_fds()
    started = {fork(fds, rank, max_bytes) for rank in range(min(ranks, len(fds)))}
    for fd in fds:
        os.close(fd)
    while started:
        process, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        if process not in started or code == processes.CHANNEL_LOST:
            started.discard(process)
            continue
        if code < 0:
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)
    os._exit(processes.CHANNEL_LOST)


def fork(fds: list[int], rank: int, max_bytes: int) -> int:
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
        values.NAMES.update(group.device_names(rank))
        RankContestant(Channel.from_fd(fds[rank], max_bytes=max_bytes)).serve()
    except ChannelClosed:
        code = processes.CHANNEL_LOST
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        # Exit handlers of the submission are not run.
        os._exit(code)
