"""The task's checker in a process that an answer may kill: the judge's side of it.

An answer that a checker uses as an index, a count or a bound can make it crash, go on without end, run out of memory,
or lose its device. Each failure ends the process, and the next check starts another.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from kernelcup_harness.core.check import CHECK_S
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import MachineFailed
from kernelcup_harness.device.memory import DeviceMemory
from kernelcup_harness.judge.fork_server import ForkServer
from kernelcup_harness.protocol import JobSpec, Mismatch
from kernelcup_harness.window.failures import DeviceError
from kernelcup_harness.wire import values
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import Check, Checked, CheckerJob, CheckerStarted, CheckFailed, Lent
from kernelcup_harness.wire.messages import pack, unpack, unpack_any

MAX_REPLY = 1 << 20
START_S = 120.0
"""Time for the task's import and a context on a device."""
END_S = 30.0
"""Time for the system to end a process: a driver takes a while."""


class CheckerProcess:
    """The checker of one job, forked by the constructor; :meth:`load` is next.

    Args:
        server: Forks its processes.
        remaining: Returns the seconds left of the stage; a check may take :data:`CHECK_S` beyond it.
        device: Memory that judge and checker share, None if it is the host's.
    """

    def __init__(
        self,
        server: ForkServer,
        remaining: Callable[[], float],
        device: DeviceMemory | None,
    ) -> None:
        self._server = server
        self._remaining = remaining
        self._device = device
        self._job: CheckerJob | None = None
        self._channel: Channel | None = server.fork(max_bytes=MAX_REPLY)
        self._started: CheckerStarted | None = None

    def load(self, job: CheckerJob) -> None:
        """Have the task loaded; do not wait for it. What a process has died of is raised when it is waited for."""
        self._job = job
        self._channel = self._channel or self._server.fork(max_bytes=MAX_REPLY)
        with suppress(ChannelClosed):
            self._channel.send(pack(job))

    def wait(self) -> tuple[Channel, CheckerStarted]:
        """Return the channel to the process once it has loaded the task. Raise :class:`MachineFailed`."""
        assert self._job is not None
        if self._channel is None:
            self.load(self._job)
        assert self._channel is not None
        if self._started is None:
            try:
                self._started = unpack(CheckerStarted, self._channel.receive(START_S))
            except (ChannelClosed, ChannelTimeout, BrokenProtocol) as error:
                text = f"the checker's process did not start: {error or type(error).__name__}"
                raise MachineFailed(text) from error
        return self._channel, self._started

    def check(self, given: Any, output: Any, *, seed: int, limit_s: float) -> str:
        """Return the checker's fault of an output.

        Raise ``TaskFault`` if it fails, dies or takes longer than ``limit_s`` seconds, and :class:`MachineFailed`.
        """
        return self._asked((given, output), limit_s, seed=seed).text

    def explain(
        self, expected: Any, output: Any, _tolerance: tuple[float, float] | None, where: str
    ) -> Mismatch | None:
        """Return how an output differs. Raise as :meth:`check` does: the copies that it needs may be too large."""
        return self._asked((expected, output), CHECK_S, where=where).mismatch

    def close(self) -> None:
        """End the process, and wait until its memory is free."""
        channel, started, self._channel, self._started = self._channel, self._started, None, None
        if channel is None:
            return
        with suppress(ChannelClosed, ChannelTimeout, BrokenProtocol, ProcessLookupError):
            if started is not None:
                # With all that it has started. It is reaped when the next one is forked, so the id is still its own.
                os.killpg(started.process, signal.SIGKILL)
                while True:
                    channel.receive(END_S)
        channel.close()

    def _asked(self, both: tuple[Any, Any], limit_s: float, *, seed: int = 0, where: str = "") -> Checked:
        channel, started = self.wait()
        limit_s = max(CHECK_S, min(limit_s, self._remaining()))
        encoder = values.Encoder()
        tree = encoder.tree(both)
        lent = self._lent(encoder) if started.borrows else []
        request = Check(tree=tree, table=encoder.table(), lent=lent, seed=seed, where=where)
        try:
            send(channel, request, encoder)
            reply = unpack_any((Checked, CheckFailed), channel.receive(limit_s))
        except ChannelTimeout as error:
            self.close()
            raise TaskFault(f"the task's check_implementation took longer than {limit_s:.0f} s") from error
        except (ChannelClosed, BrokenProtocol) as error:
            self.close()
            raise TaskFault("the task's check_implementation ended its process") from error
        if isinstance(reply, CheckFailed):
            self.close()
            raise TaskFault(reply.text) from (torch.OutOfMemoryError(reply.text) if reply.memory else None)
        assert isinstance(reply, Checked)
        return reply

    def _lent(self, encoder: values.Encoder) -> list[Lent]:
        """Return where the tensors on the device lie."""
        assert self._device is not None
        torch.cuda.synchronize()
        on_device = [each for each in encoder.tensors if each.nbytes and each.value.is_cuda]
        return [lent(self._device, each.value, each.offset) for each in on_device]


def job_of(spec: JobSpec, memory_bytes: int, device: DeviceMemory | None) -> CheckerJob:
    """Return a checker's share of a job; ``memory_bytes`` is its limit on the host, 0 for none."""
    trial = None
    if device is not None:
        with suppress(DeviceError):
            # The allocation stays the judge's, also when this byte is used for something else.
            trial = lent(device, torch.zeros(1, dtype=torch.uint8, device="cuda"))
    return CheckerJob(
        module=spec.reference_module, style=spec.check_style, memory_bytes=memory_bytes, trial=trial
    )


def lent(device: DeviceMemory, tensor: torch.Tensor, offset: int = 0) -> Lent:
    """Return where a tensor lies in device memory. Raise ``DeviceError`` if that cannot be shared."""
    handle, begin = device.lend(tensor)
    return Lent(offset=offset, handle=handle, begin=begin)


def send(channel: Channel, request: Check, encoder: values.Encoder) -> None:
    """Send a request, with the bytes of its tensors that are not lent. Raise ``ChannelClosed``."""
    elsewhere = {each.offset for each in request.lent}
    arena = values.Arena.create(encoder.nbytes)
    try:
        for entry in encoder.tensors:
            if entry.nbytes and entry.offset not in elsewhere:
                write(arena.fd, entry.offset, values.bytes_of(entry.value).cpu())
        channel.send(pack(request), [arena.fd])
    finally:
        arena.close()


def write(fd: int, offset: int, content: torch.Tensor) -> None:
    """Write bytes to a file: in a mapping each page would be touched first, and count as shared memory of the judge."""
    begin, done = torch.Tensor.data_ptr(content), 0
    while done < content.numel():
        left = (ctypes.c_ubyte * (content.numel() - done)).from_address(begin + done)
        done += os.pwrite(fd, left, offset + done)
