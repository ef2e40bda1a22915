"""The judge of one GPU rank: makes its inputs, calls its process of the submission, and checks its answers.

It does what the judge that decides asks for, see :mod:`kernelcup_harness.ranks.leader`; both are one program, so values
cross between them as Python's own. What comes from the submission's process is as hostile as in any judge.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelcup_harness.core import requests
from kernelcup_harness.core.answer import Answer, Form, Pending, returned
from kernelcup_harness.core.call import Caller
from kernelcup_harness.core.check import Fault, Place
from kernelcup_harness.device import accelerators
from kernelcup_harness.explain import chips
from kernelcup_harness.isolation.sizes import RANKS
from kernelcup_harness.judge.load import load
from kernelcup_harness.protocol import Backend, JobSpec, SampleName
from kernelcup_harness.ranks import group
from kernelcup_harness.ranks.checks import RankChecks, RankTask
from kernelcup_harness.ranks.errors import Raised
from kernelcup_harness.ranks.messages import Join, Joined
from kernelcup_harness.ranks.witnessed import Marks
from kernelcup_harness.submission import salt
from kernelcup_harness.submission.languages import task_functions
from kernelcup_harness.window.reasons import DeviceError, NoWindow
from kernelcup_harness.wire import aliasing, devices, values
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import InputLayout, M, Message

if TYPE_CHECKING:
    from kernelcup_harness.ranks.gated import GatedCalls

READY = "ready"
"""Said when only the bytes of an input are missing; the reply is when to write them, None for never."""
COPIED_TOGETHER = 128
"""Tensors of an answer that are copied by one kernel."""


@dataclass(frozen=True, slots=True)
class Called:
    """A call that has returned, by ``time.perf_counter_ns``, which all processes of a machine share."""

    began_ns: int
    """When the input was written."""
    ended_ns: int
    """When the judge had the answer."""
    own_ns: float
    """The contestant's own time of the call, unverified."""
    profile: str | None = None
    trace: str | None = None
    why: str = ""
    """Why no call of its case can be queued; empty if one may be."""


class ReadyCaller(Caller):
    """Makes calls whose input is written when all ranks are ready.

    Args:
        ready: Called when only the input's bytes are missing.
        others: Those of its base.
    """

    def __init__(self, ready: Callable[[], None], *others: Any, gpu: bool) -> None:
        super().__init__(*others, gpu=gpu)
        self._ready = ready

    def _give(self, slot: int, layout: InputLayout, timeout_s: float) -> None:
        super()._give(slot, layout, timeout_s)
        self._ready()


class NotCalled(Exception):
    """Another rank could not be called, so this one was not either."""


class RankJudge:
    """Answers requests until the judge that decides is gone.

    Args:
        line: To the judge that decides.
        rank: The GPU rank.
        spec: The job.
        secret: Decides its inputs.
        channels: To the rank's contestants by role.
        gate_fd: The page of the gate; None without one.
    """

    def __init__(
        self,
        line: Connection,
        rank: int,
        spec: JobSpec,
        secret: bytes,
        channels: Mapping[str, Channel],
        gate_fd: int | None,
    ) -> None:
        self._line, self._rank, self._spec, self._secret = line, rank, spec, secret
        self._channels = channels
        self._callers: dict[str, Caller] = {}
        self._pending: tuple[Caller, Pending] | None = None
        self._gated: dict[str, GatedCalls] = {}
        self._gate_fd = gate_fd
        self._began_ns = 0
        self._overwritten = False

    def serve(self) -> None:
        """Answer one request after the other."""
        del os.environ[RANKS]  # the device is this process's own to start
        while True:
            try:
                name, arguments = self._line.recv()
            except (EOFError, OSError):
                return
            try:
                reply = getattr(self, name)(*arguments)
            except Exception as error:
                reply = Raised.of(error)
            self._line.send(reply)

    def start(self) -> dict[str, Any]:
        """Start the device and load the task; return what the device is. Raise ``TaskFault``."""
        accelerator = accelerators.of(self._spec.backend)
        accelerator.start()
        if self._spec.backend is Backend.CUDA:
            torch.cuda.set_device(self._rank)
        values.NAMES.update(group.device_names(self._rank))
        salt.install()
        self._task = RankTask(
            self._spec.reference_module,
            self._spec.check_style,
            Path.cwd(),
            load=task_functions,
            lacks=chips.missing,
            salted=salt.salted,
        )
        self._task.rank = self._rank
        self._checks = RankChecks(self._task, self._secret, self._spec)
        for role, channel in self._channels.items():
            channel.busy_s = devices.busy_s()
            limits, gpu = self._spec.limits, devices.on_gpu()
            others = channel, self._task.record_type, limits.result_bytes
            self._callers[role] = ReadyCaller(self._be_ready, *others, gpu=gpu)
        return accelerator.describe()

    def join(self, world_size: int, port: int) -> None:
        """Join the group of the judges."""
        group.join(self._rank, world_size, port)

    def greet(self, role: str) -> None:
        """Wait for the hello of a contestant."""
        requests.hello(self._channels[role])

    def have_joined(self, role: str, world_size: int, port: int, timeout_s: float) -> None:
        """Have a contestant join the group of its submission's processes."""
        request = Join(rank=self._rank, world_size=world_size, port=port)
        self._callers[role].line.ask(request, Joined, timeout_s=timeout_s)

    def load(self, role: str) -> None:
        """Have a contestant import the submission. Raise ``RunEnds``."""
        load(self._channels, role, self._spec.submission.entry, self._spec.limits.import_s)

    def ask(self, role: str, request: Message, expected: type[M], timeout_s: float) -> M:
        """Return a contestant's reply to a request that needs no input."""
        return self._callers[role].line.ask(request, expected, timeout_s=timeout_s)

    def form(self, place: Place) -> Form | None:
        """Return the form of answers to a case, without its value. Raise ``TaskFault``."""
        form = self._checks.form(place)
        return replace(form, value=None) if form is not None else None

    def call(
        self, role: str, place: Place, sample: SampleName, timeout_s: float, profile: bool, timed: bool
    ) -> Called:
        """Call a contestant once, at the time that the judge that decides names. Keep the answer to be compared."""
        caller, form = self._callers[role], self._checks.form(place)
        private = form.private if form is not None and not (profile or timed) else frozenset()
        data = self._checks.make_input(place, sample)
        pending = caller.timed(data, form, timeout_s=timeout_s, profile=profile, private=private)
        self._pending, self._overwritten = (caller, pending), pending.overwritten
        if profile:
            answer = caller.open(pending)
            return Called(self._began_ns, time.perf_counter_ns(), 0.0, answer.profile, answer.trace)
        own_ns, ended_ns = returned(pending).ns, self._began_ns + int(pending.wall_ns)
        return Called(self._began_ns, ended_ns, own_ns, why=hindrance(data, form))

    def _be_ready(self) -> None:
        self._line.send(READY)
        at_ns = self._line.recv()
        if at_ns is None:
            raise NotCalled
        while time.perf_counter_ns() < at_ns:
            pass
        self._began_ns = time.perf_counter_ns()

    def use_gate(self, role: str, timeout_s: float) -> str:
        """Have a contestant map the gate; return why it cannot queue calls behind it, empty if it can."""
        from kernelcup_harness.ranks.gated import GatedCalls

        assert self._gate_fd is not None
        try:
            self._gated[role] = GatedCalls(self._callers[role], self._channels[role], self._rank)
        except (NoWindow, DeviceError, OSError) as error:
            return str(error)
        return self._gated[role].use_gate(self._gate_fd, timeout_s)

    def queue(self, role: str, place: Place, sample: SampleName, number: int) -> int:
        """Have a call queued behind the gate; return the bytes of its input. Raise ``NotQueued``."""
        self._pending, form = None, self._checks.form(place)
        return self._gated[role].queue(self._checks.make_input(place, sample), form, number)

    def write(self, role: str, marks: Marks) -> None:
        """Write the input of the queued call, between two marks."""
        self._gated[role].write((marks.before_input, marks.before_call))

    def settle(self, role: str, timeout_s: float) -> None:
        """Wait until the contestant says that its queued call is done."""
        self._gated[role].settle(timeout_s)

    def drop(self, role: str, timeout_s: float) -> None:
        """Let the queued call end, whose answer nothing depends on."""
        self._gated[role].drop(timeout_s)

    def take(self, role: str, marks: Marks, at_ns: int) -> int:
        """Take the answer of the queued call, and make the last mark; return the answer's bytes."""
        return self._gated[role].take(marks.after_call, at_ns)

    def keep_taken(self, role: str) -> float:
        """Keep the answer that was taken to be compared; return the contestant's own time."""
        pending = self._gated[role].taken()
        self._pending, self._overwritten = (self._callers[role], pending), False
        return returned(pending).ns

    def compared(self, place: Place, sample: SampleName) -> Fault | None:
        """Open the last answer; return the fault of its form. The reference is called in any case."""
        answer, raised = None, None
        try:
            assert self._pending is not None
            answer = self._opened(*self._pending)
        except Exception as error:
            raised = error
        fault = self._checks.compared(place, sample, answer)
        if raised is not None:
            raise raised
        return fault

    def _opened(self, caller: Caller, pending: Pending) -> Answer:
        return caller.open(pending)

    def checked(self, place: Place, sample: SampleName, right: bool = False) -> Fault | None:
        """Return the checker's fault of the last answer, or of the reference's. Raise ``TaskFault``."""
        return self._checks.checked(place, sample, overwritten=self._overwritten, right=right)

    def expected(self, place: Place, sample: SampleName) -> None:
        """Call the reference. Raise ``TaskFault``."""
        self._checks.expected(self._checks.make_input(place, sample))
        if devices.on_gpu():
            torch.cuda.synchronize()


def hindrance(data: Any, form: Form | None) -> str:
    """Return why no call with such an input can be queued; empty if one may be. All ranks are to know before one is."""
    answers = aliasing.leaves(form.value) if form is not None else []
    if any(not leaf.is_cuda for leaf in [*aliasing.leaves(data), *answers]):
        return "its input or its answer has tensors on the host"
    return f"its answer has more than {COPIED_TOGETHER} tensors" if len(answers) > COPIED_TOGETHER else ""
