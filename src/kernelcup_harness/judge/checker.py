"""The task's checker in a process that an answer may kill.

An answer that a checker uses as an index, a count or a bound can make it crash, go on without end, run out of memory,
or lose its device. Each failure ends the process, and the next check starts another.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from kernelcup_harness.core.check import CHECK_S
from kernelcup_harness.core.task import TaskCode, TaskFault, seed_everything
from kernelcup_harness.core.verdict import MachineFailed, is_out_of_memory
from kernelcup_harness.device import accelerators, memory
from kernelcup_harness.explain import chips
from kernelcup_harness.explain.differences import first_mismatch
from kernelcup_harness.isolation import environments, job_environment, processes
from kernelcup_harness.judge.fork_server import ForkServer
from kernelcup_harness.protocol import JobSpec, Mismatch
from kernelcup_harness.submission.languages import task_functions
from kernelcup_harness.wire import decode, devices, values
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.job_messages import Check, Checked, CheckerStarted, JudgeJob
from kernelcup_harness.wire.messages import (
    MAX_TEXT,
    Failed,
    FailureKind,
    Message,
    failed,
    pack,
    unpack,
    unpack_any,
)

MAX_JOB, MAX_REPLY = 256 << 20, 1 << 20
START_S = 120.0
"""Time for the task's import and a context on a device."""
END_S = 30.0
"""Time for the system to end a process: a driver takes a while."""
FIRST_TO_DIE = "1000"
"""The score by which the system chooses a process to end when the machine has no memory left: the highest."""


class CheckerProcess:
    """The checker of a job. Its process makes a context on the device at once, and gets the job by :meth:`load`.

    Args:
        server: Forks its processes.
        remaining: Returns the seconds left of the stage; a check may take :data:`CHECK_S` beyond it.
        lends: Whether tensors on a device are lent, if that works there, and not copied through the host.
    """

    def __init__(self, server: ForkServer, remaining: Callable[[], float], *, lends: bool) -> None:
        self._server = server
        self._remaining = remaining
        self._lends = lends
        self._job: JudgeJob | None = None
        self._channel: Channel | None = Channel(server.fork(), max_bytes=MAX_REPLY, max_fds=0)
        self._started: CheckerStarted | None = None

    def load(self, spec: JobSpec) -> None:
        """Have the process load the task; do not wait for it."""
        self._job = JudgeJob(spec=spec, secret_seed="", roles=[], environment=dict(os.environ))
        self._hand_over(self._job)

    def wait(self) -> Channel:
        """Return the channel to the process, a new one if the last has ended. Raise :class:`MachineFailed`."""
        assert self._job is not None
        channel = self._channel or self._hand_over(self._job)
        if self._started is None:
            try:
                self._started = unpack(CheckerStarted, channel.receive(START_S))
            except (ChannelClosed, ChannelTimeout, BrokenProtocol) as error:
                text = f"the checker's process did not start: {error or type(error).__name__}"
                raise MachineFailed(text) from error
        return channel

    def check(self, given: Any, output: Any, *, seed: int, limit_s: float) -> str:
        """Return the checker's fault of an output.

        Raise ``TaskFault`` if it fails, dies or takes longer than ``limit_s`` seconds, and :class:`MachineFailed`.
        """
        return self._asked((given, output), limit_s, seed=seed).text

    def explain(self, expected: Any, output: Any, _tolerance: object, where: str) -> Mismatch | None:
        """Return how an output differs. Raise as :meth:`check` does: the copies that it takes may be too large."""
        return self._asked((expected, output), CHECK_S, where=where).mismatch

    def end(self) -> None:
        """End the process with all that it has started, and wait until its memory is free."""
        channel, started, self._channel, self._started = self._channel, self._started, None, None
        with suppress(ChannelClosed, ChannelTimeout, BrokenProtocol, ProcessLookupError):
            while channel is not None and started is not None:
                # It is reaped when the next one is forked, so the id is still its own.
                os.killpg(started.process, signal.SIGKILL)
                channel.receive(END_S)
        if channel is not None:
            channel.close()

    def _hand_over(self, job: JudgeJob) -> Channel:
        channel = self._channel or Channel(self._server.fork(), max_bytes=MAX_REPLY, max_fds=0)
        self._channel = channel
        # One that has ended or does not read is found when it is waited for.
        with suppress(ChannelClosed, ChannelTimeout):
            channel.send(pack(job), timeout_s=START_S)
        return channel

    def _asked(self, both: tuple[Any, Any], limit_s: float, *, seed: int = 0, where: str = "") -> Checked:
        channel, limit_s = self.wait(), max(CHECK_S, min(limit_s, self._remaining()))
        encoder = values.Encoder()
        try:
            trees = [encoder.tree(each) for each in both]
        except values.CannotCarry as error:
            raise TaskFault(f"the task's check_implementation cannot get {error}") from error
        arena = values.Arena.create(encoder.nbytes)
        try:
            table = self._written(encoder, arena)
            request = Check(trees=trees, table=table, seed=seed, where=where)
            channel.send(pack(request), [arena.fd], timeout_s=limit_s)
            reply = unpack_any((Checked, Failed), channel.receive(limit_s))
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            self.end()
            is_late = isinstance(error, ChannelTimeout)
            how = f"took longer than {limit_s:.0f} s" if is_late else "ended its process"
            raise TaskFault(f"the task's check_implementation {how}") from error
        finally:
            arena.close()
        if isinstance(reply, Checked):
            return reply
        assert isinstance(reply, Failed)
        if reply.kind is FailureKind.OUTPUT and self._lends:
            # Memory that was lent could not be opened: from now on everything is copied.
            self._lends = False
            return self._asked(both, limit_s, seed=seed, where=where)
        self.end()
        lacks = reply.kind is FailureKind.MEMORY
        raise TaskFault(reply.text) from (torch.OutOfMemoryError(reply.text) if lacks else None)

    def _written(self, encoder: values.Encoder, arena: values.Arena) -> list[dict[str, Any]]:
        """Write tensors to shared memory, but lend those on the device if that is possible; return their table."""
        table = encoder.table()
        for entry, described in zip(encoder.tensors, table, strict=True):
            if entry.nbytes and self._lends and entry.value.is_cuda:
                described["lent"] = lent(entry.value)
            elif entry.nbytes:
                arena.bytes[entry.offset : entry.offset + entry.nbytes].copy_(values.bytes_of(entry.value))
        return table


def lent(tensor: torch.Tensor) -> list[Any] | None:
    """Return what another process needs to open a tensor's device memory; None where memory cannot be shared."""
    torch.cuda.synchronize()
    try:
        shared = tensor.untyped_storage()._share_cuda_()
    except RuntimeError:
        return None
    begin = tensor.storage_offset() * tensor.element_size()
    return [begin, *(each.hex() if isinstance(each, bytes) else each for each in shared)]


def borrowed(lent: list[Any], nbytes: int) -> torch.Tensor:
    """Return a copy of another process's device memory, uint8 of shape (nbytes,). Raise ``RuntimeError``."""
    begin, *parts = lent
    shared = [bytes.fromhex(each) if isinstance(each, str) else each for each in parts]
    storage = torch.UntypedStorage._new_shared_cuda(*shared)
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage, begin, (nbytes,)).clone()


# In the process itself


class Received:
    """The bytes of a request's tensors, from now on the checker's own.

    Args:
        arena: Those on the host.
        table: Says which were lent.
    """

    def __init__(self, arena: values.Arena, table: Any) -> None:
        self._arena, self.size = arena, arena.size
        self._lent = {each["offset"]: each["lent"] for each in table if "lent" in each}

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return bytes on a device."""
        if nbytes and offset in self._lent:
            return borrowed(self._lent[offset], nbytes)
        part = self._arena.bytes[offset : offset + nbytes]
        return part.to(device)


def serve(end: socket.socket) -> None:
    """Check answers for the judge; the first check that fails is the last."""
    channel = Channel(end, max_bytes=MAX_JOB, max_fds=1)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_DIE)
    accelerators.here().start()
    device = accelerators.here().memory()
    if device is not None:
        memory.hold(device)
    job = unpack(JudgeJob, channel.receive())
    os.environ.update(job.environment)
    environments.use(os.environ)
    sys.path.insert(0, os.getcwd())
    # As for a submission, the limit would count what a driver reserves.
    processes.limit_resources(None if device is not None else job_environment.memory_limit(job.spec))
    task = loaded(job.spec)
    channel.send(pack(CheckerStarted(process=os.getpid())))
    while True:
        request = unpack(Check, channel.receive())
        arena = values.Arena.adopt(*channel.take_fds())
        try:
            reply: Message = checked(task, request, arena)
        except values.BadTree as error:
            reply = failed(FailureKind.OUTPUT, str(error))
        except BaseException as error:  # the checker's, or the device's, which may be lost
            kind = FailureKind.MEMORY if is_out_of_memory(error) else FailureKind.EXCEPTION
            channel.send(pack(failed(kind, str(error) or type(error).__name__)))
            return
        arena.close()
        channel.send(pack(reply))


def loaded(spec: JobSpec) -> TaskCode | TaskFault:
    """Return the task's code, or why it cannot be loaded here."""
    try:
        module, style = spec.reference_module, spec.check_style
        task = TaskCode(module, style, Path.cwd(), load=task_functions, lacks=chips.missing)
    except TaskFault as fault:
        return fault
    # This imports what it seeds, while the submission is imported.
    seed_everything(0)
    return task


def checked(task: TaskCode | TaskFault, request: Check, arena: values.Arena) -> Checked:
    """Answer a request. Raise whatever the checker raises."""
    if isinstance(task, TaskFault):
        raise task
    received, record_type = Received(arena, request.table), decode.importing_record_type
    decoder = decode.Decoder(received, request.table, record_type, dense=False)
    given, output = map(decoder.value, request.trees)
    if request.where:
        return Checked(mismatch=first_mismatch(given, output, task.tolerance, request.where))
    seed_everything(request.seed)
    text = task.checked(given, output)
    if devices.on_gpu():
        # A kernel's failure shows when it has ended.
        torch.cuda.synchronize()
    return Checked(text=text[:MAX_TEXT])
