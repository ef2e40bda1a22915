"""The import of the submission: what is made before it, greeting the contestants, and having them load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelcup_harness.core import requests
from kernelcup_harness.core.call import Caller
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.judge import Deadline
from kernelcup_harness.core.plan import Stage
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.core.task import TaskCode
from kernelcup_harness.core.verdict import FAILURES, RunEnds, of_import
from kernelcup_harness.device import memory
from kernelcup_harness.protocol import JobSpec, Reason, Verdict
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Failed, Load, Ready, pack, unpack_any

if TYPE_CHECKING:
    from kernelcup_harness.clocks.replay.session import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What is made before a contestant is met."""

    spec: JobSpec
    runner: RunnerLine
    channels: Mapping[str, Channel]
    """To each contestant by role."""
    callers: Mapping[str, Caller]
    deadline: Deadline
    task: TaskCode | None
    """None if the judges of GPU ranks have it."""
    stages: Sequence[Stage]
    checks: Checks
    session: Session | None
    """What replays calls, None without a GPU."""
    reservation: memory.Reservation | None

    @property
    def is_timed(self) -> bool:
        """Whether any stage is."""
        return any(stage.timed for stage in self.stages)


def greet(channels: Mapping[str, Channel]) -> None:
    """Wait for the hello of all contestants. No user code has run before it: a failure is never the submission's.

    Raise ``RunEnds``.
    """
    for role, channel in channels.items():
        try:
            requests.hello(channel)
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            text = f"the process of the {role} did not start: {error or type(error).__name__}"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text) from error


def load(channels: Mapping[str, Channel], role: str, file: str, limit_s: float) -> None:
    """Have the submission imported by a contestant, unless a kept binary is in its place. Raise ``RunEnds``."""
    channel = channels.get(role)
    if channel is None:
        return
    try:
        channel.send(pack(Load(file=file)))
        frame = channel.receive(limit_s)
        message = unpack_any((Ready, Failed), frame)
    except (ChannelTimeout, BrokenProtocol, ChannelClosed) as error:
        raise of_import(error, limit_s, role) from None
    if isinstance(message, Failed):
        raise RunEnds(*FAILURES[message.kind], message.text, role=role)
    if frame.get("id") is not None:
        text = "the submission answered out of turn"
        raise RunEnds(Verdict.REJECTED, Reason.PROTOCOL, text, role=role)
