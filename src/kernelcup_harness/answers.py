"""What a contestant says of a call, read by the judge: nothing in it is believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness import aliasing, wire
from kernelcup_harness.frames import BrokenProtocol
from kernelcup_harness.poison import POISON_BYTES

MOST_TENSORS = 1024
"""An answer may have more only where the reference's has: each costs the judge time."""
MAX_TEXT = 16 << 10
MAX_PROFILE = 256 << 10
MAX_TRACE = 8 << 20
CLAIM, HANDSHAKE, REPLAY, PROFILE = "claim", "handshake", "replay", "profile"
"""What a call is for: only a claim is timed by the contestant, with a cold cache."""
TIMED = "timed"
"""A claim whose time is the judge's: all that counts is its wall clock."""
RING = "ring"
KINDS = frozenset({"exception", "compile", "memory", "host_memory", "output", "too_large"})


class CallFailed(Exception):
    """The contestant says that the call failed, and how."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What one call gave."""

    output: Any = None
    ns: float = math.nan
    """The contestant's claim, NaN where none was asked for; of a call that the judge has timed, its time."""
    own_ns: float = math.nan
    """The contestant's claim of a call that the judge has timed."""
    late: bool = False
    """Whether its device had to wait for its host meanwhile, as it says."""
    wall_ns: float = math.nan
    """From the judge's GO to the answer."""
    profile: str | None = None
    trace: str | None = None
    shared_inputs: tuple[int, ...] = ()
    """Which tensors of the input the output shares memory with, as the contestant says."""
    repeats_itself: bool = False
    """Whether two tensors of the output are one."""


class GuardBroken(BrokenProtocol):
    """Something was written beside an output."""


class NotCommitted(Exception):
    """An armed call's answer is not the one to which the device had committed when it said that it was done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """What the answers to a case look like: the reference's output with its tensors emptied."""

    value: Any
    nbytes: int
    tensors: int
    in_place: bool
    """Whether a call that returns None has answered in its input."""

    @classmethod
    def of(cls, expected: Any, *, in_place: bool) -> Form:
        """Take the form of the reference's output. Raise ``CannotCarry``."""
        nbytes = wire.output_nbytes(expected, "output")
        count = len(aliasing.leaves(expected))
        return cls(value=wire.form_of(expected), nbytes=nbytes, tensors=count, in_place=in_place)


class Copied:
    """The bytes of an answer in the judge's own memory."""

    def __init__(self, data: torch.Tensor) -> None:
        self.bytes = data
        self.size = data.numel()

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return a part on a device."""
        private = torch.empty(nbytes, dtype=torch.uint8, device="cuda" if device == "cuda:0" else "cpu")
        return private.copy_(self.bytes[offset : offset + nbytes])


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """An answer that has arrived and was not looked at yet."""

    reply: dict[str, Any]
    kind: str
    wall_ns: float
    inputs: int
    most_tensors: int
    memory: wire.Arena | Copied
    pattern: torch.Tensor
    poisoned: int
    is_committed: Callable[[Sequence[torch.Tensor]], bool] | None = None
    """Whether these tensors are those to which an armed call has committed."""


def opened(pending: Pending, record_type: wire.RecordType) -> Answer:
    """Return what an answer says. Raise :class:`CallFailed`, :class:`NotCommitted` or ``BrokenProtocol``."""
    reply = pending.reply
    raise_failure(reply)
    if pending.kind == PROFILE and reply.get("type") == "profile":
        trace = str(reply.get("trace"))
        return Answer(
            profile=str(reply.get("text"))[:MAX_PROFILE],
            trace=trace if len(trace) <= MAX_TRACE else None,
            wall_ns=pending.wall_ns,
        )
    if reply.get("type") != "done":
        raise BrokenProtocol("an answer of unknown type")
    ns, own_ns = times_of(pending)
    output = read(pending, record_type)
    count = len(aliasing.leaves(output))
    try:
        shared = aliasing.places(reply.get("shared"), (count, pending.inputs))
        repeated = aliasing.places(reply.get("repeated"), (count, count))
    except ValueError as error:
        raise BrokenProtocol(f"an answer whose sharing of memory is {error}") from error
    return Answer(
        output=output,
        ns=ns,
        own_ns=own_ns,
        late=was_late(reply),
        wall_ns=pending.wall_ns,
        shared_inputs=tuple(sorted({place for _, place in shared})),
        repeats_itself=bool(repeated),
    )


def read(pending: Pending, record_type: wire.RecordType) -> Any:
    """Return the value of an answer, whose guard bands must be as they were made."""
    reply = pending.reply
    table = reply.get("table")
    if isinstance(table, list) and len(table) > pending.most_tensors:
        raise CallFailed("output", f"the call returned {len(table)} tensors")
    try:
        decoder = wire.Decoder(pending.memory, reply.get("table"), record_type, dense=True)
        output = decoder.value(reply.get("tree"))
    except wire.BadTree as error:
        if "not defined in the task's files" in str(error):
            text = f"the call returned a class of its own: {error}"[:MAX_TEXT]
            raise CallFailed("output", text) from error
        raise BrokenProtocol(str(error)) from error
    check_guards(pending, decoder.gaps)
    # By the copies that are checked.
    if pending.is_committed is not None and not pending.is_committed(decoder.tensors):
        raise NotCommitted
    return output


def expect(reply: dict[str, Any], kind: str) -> None:
    """Raise :class:`CallFailed` for a failure, ``BrokenProtocol`` for anything else of another type."""
    raise_failure(reply)
    if reply.get("type") != kind:
        raise BrokenProtocol(f"an answer of unknown type where {kind!r} was due")


def raise_failure(reply: dict[str, Any]) -> None:
    """Raise :class:`CallFailed` if the contestant says that the call failed."""
    if reply.get("type") == "fail":
        kind = str(reply.get("kind"))
        if kind not in KINDS:
            raise BrokenProtocol("a failure of unknown kind")
        raise CallFailed(kind, str(reply.get("text"))[:MAX_TEXT])


def times_of(pending: Pending) -> tuple[float, float]:
    """Return the time of an answer and, where that is the judge's, the contestant's own. Raise ``BrokenProtocol``."""
    claim_ns = claimed(pending.reply.get("ns"), pending)
    return (pending.wall_ns, claim_ns) if pending.kind == TIMED else (claim_ns, math.nan)


def claimed(ns: object, pending: Pending) -> float:
    """Return the claim of an answer, never more than the judge's clock; NaN where none was asked for."""
    if pending.kind not in (CLAIM, TIMED):
        if ns is not None:
            raise BrokenProtocol("an answer with a time where none is due")
        return math.nan
    if not isinstance(ns, float) or not 0 < ns < math.inf:
        raise BrokenProtocol("an answer without a time")
    return min(ns, pending.wall_ns)


def was_late(reply: dict[str, Any]) -> bool:
    """Tell whether a contestant says that its device had to wait for its host."""
    return reply.get("late") is True


def end_of(table: object, size: int) -> int:
    """Return where the tensors of a table end, guard included: what an answer can be read from."""
    ends = [0]
    for entry in table if isinstance(table, list) else []:
        offset, nbytes = (
            entry.get(name) if isinstance(entry, dict) else None for name in ("offset", "nbytes")
        )
        if type(offset) is int and type(nbytes) is int:
            ends.append(wire.aligned(offset + nbytes))
    return max(POISON_BYTES, min(size, max(ends) + wire.GUARD_BYTES))


def check_guards(pending: Pending, gaps: list[tuple[int, int]]) -> None:
    """Raise :class:`GuardBroken` unless the bands around the tensors are as they were made."""
    twice = pending.pattern.repeat(2)
    for begin, after in gaps:
        # Beyond what was poisoned nobody knows what had been there.
        end = min(after, pending.poisoned)
        if begin >= end:
            continue
        band, first = pending.memory.bytes[begin:end].clone(), begin % POISON_BYTES
        if not torch.equal(band, twice[first : first + end - begin]):
            raise GuardBroken("something was written beside an output")
