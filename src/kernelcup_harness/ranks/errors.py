"""What was raised in the judge of one GPU rank, on its way to the judge that decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import MachineFailed, RunEnds
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.values import CannotCarry


class NotQueued(Exception):
    """A call cannot be queued behind the gate; the text says why."""


KNOWN = (
    NotQueued,
    CallFailed,
    RunEnds,
    TaskFault,
    CannotCarry,
    ChannelTimeout,
    ChannelClosed,
    BrokenProtocol,
)
"""Errors that say whose fault it is. All others are the machine's."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An error with all that it holds."""

    kind: type[Exception]
    args: tuple[Any, ...]
    state: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> Raised:
        """Take an error apart."""
        if isinstance(error, KNOWN):
            return cls(type(error), error.args, dict(vars(error)))
        if type(error).__name__ == "OutOfMemoryError":
            return cls(TaskFault, (f"the judge ran out of device memory: {error}",), {"kind": "memory"})
        return cls(MachineFailed, (f"{type(error).__name__}: {error}",), {})

    def error(self, rank: int) -> Exception:
        """Return the error; its text names the GPU rank."""
        made = self.kind.__new__(self.kind)
        made.__dict__.update(self.state)
        text = f"GPU rank {rank}: {self.args[0]}" if self.args and self.args[0] else f"GPU rank {rank}"
        made.args = (text, *self.args[1:])
        for name in ("text", "message"):
            if name in self.state:
                setattr(made, name, text)
        return made
