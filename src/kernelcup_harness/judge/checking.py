"""The process that runs the task's checker on answers, until one of them kills it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from kernelcup_harness.core.task import TaskCode, TaskFault, seed_everything
from kernelcup_harness.core.verdict import is_out_of_memory
from kernelcup_harness.device import accelerators, memory
from kernelcup_harness.explain import chips
from kernelcup_harness.explain.differences import first_mismatch
from kernelcup_harness.isolation import processes
from kernelcup_harness.submission.languages import task_functions
from kernelcup_harness.window.failures import DeviceError
from kernelcup_harness.wire import decode, values
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.job_messages import Check, Checked, CheckerJob, CheckerStarted, CheckFailed, Lent
from kernelcup_harness.wire.messages import MAX_TEXT, pack, unpack

FIRST_TO_DIE = "1000"
"""The score by which the system chooses a process to end when the machine has no memory left: the highest."""


class Received:
    """The bytes of a request's tensors, which are the checker's own from here on.

    Args:
        arena: Those on the host.
        lent: Those on the device.
        device: Opens the latter; None without a device.
    """

    def __init__(self, arena: values.Arena, lent: Sequence[Lent], device: memory.DeviceMemory | None) -> None:
        self._arena = arena
        self._lent = {each.offset: each for each in lent}
        self._device = device
        self.size = arena.size

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return bytes on a device."""
        there = self._lent.get(offset)
        if self._device is not None and there is not None and nbytes:
            return self._device.borrow(there.handle, there.begin, nbytes)
        part = self._arena.bytes[offset : offset + nbytes]
        return part.to("cuda") if self._device is not None and device == "cuda:0" else part


class Checking:
    """Checks answers for the judge.

    Args:
        channel: To the judge.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(FIRST_TO_DIE)
        accelerators.here().start()
        self._device = accelerators.here().memory()
        # This makes the context, while the judge makes its own.
        self._reservation = memory.reserve(self._device)
        if self._device is not None:
            self._device.limit(memory.CHECKER_MOST * memory.part())

    def serve(self) -> None:
        """Load the task, then answer one request after the other; the first that fails is the last."""
        job = unpack(CheckerJob, self._channel.receive())
        processes.limit_resources(job.memory_bytes or None)
        task = loaded(job)
        self._channel.send(pack(CheckerStarted(process=os.getpid(), borrows=self._borrows(job.trial))))
        while True:
            request = unpack(Check, self._channel.receive())
            arena = values.Arena.adopt(*self._channel.take_fds())
            try:
                reply = self._reply(task, request, arena)
            except BaseException as error:  # the checker's, or the device's, which may be lost
                text = str(error) or type(error).__name__
                failed = CheckFailed(text=text[:MAX_TEXT], memory=is_out_of_memory(error))
                self._channel.send(pack(failed))
                return
            arena.close()
            self._channel.send(pack(reply))
            if self._reservation is not None:
                self._reservation.trim()

    def _borrows(self, trial: Lent | None) -> bool:
        """Return whether the judge's device memory can be opened here."""
        if self._device is None or trial is None:
            return False
        try:
            self._device.borrow(trial.handle, trial.begin, 1)
        except (DeviceError, RuntimeError):
            return False
        return True

    def _reply(self, task: TaskCode | TaskFault, request: Check, arena: values.Arena) -> Checked:
        if isinstance(task, TaskFault):
            raise task
        received = Received(arena, request.lent, self._device)
        decoder = decode.Decoder(received, request.table, decode.importing_record_type, dense=False)
        given, output = decoder.value(request.tree)
        if self._device is not None:
            self._device.close_but({each.handle for each in request.lent})
        if request.where:
            return Checked(mismatch=first_mismatch(given, output, task.tolerance, request.where))
        seed_everything(request.seed)
        text = task.checked(given, output)
        if self._device is not None:
            # A kernel's failure shows when it has ended.
            torch.cuda.synchronize()
        return Checked(text=text[:MAX_TEXT])


def loaded(job: CheckerJob) -> TaskCode | TaskFault:
    """Return the task's code, or why it cannot be loaded here."""
    try:
        return TaskCode(job.module, job.style, Path.cwd(), load=task_functions, lacks=chips.missing)
    except TaskFault as fault:
        return fault


def serve(channel: Channel) -> None:
    """Check answers until one kills this process, or the judge is gone."""
    Checking(channel).serve()
