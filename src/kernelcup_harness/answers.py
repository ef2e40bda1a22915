"""A contestant's reply to a call, as read by the judge: nothing in it is trusted."""

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
"""Most tensors of an answer, unless the reference's has more: each costs the judge time."""
MAX_TEXT = 16 << 10
MAX_PROFILE = 256 << 10
MAX_TRACE = 8 << 20
CLAIM, HANDSHAKE, REPLAY, PROFILE = "claim", "handshake", "replay", "profile"
"""Purposes of a call: the contestant times only claims, with a cold cache."""
TIMED = "timed"
"""A claim that the judge times: only the judge's wall clock counts."""
RING = "ring"
KINDS = frozenset({"exception", "compile", "memory", "host_memory", "output", "too_large"})


class CallFailed(Exception):
    """The contestant reports that the call failed, and how."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The result of one call."""

    output: Any = None
    ns: float = math.nan
    """The contestant's claim, NaN if none was requested; the judge's time if the judge has timed the call."""
    own_ns: float = math.nan
    """The contestant's claim, if the judge has timed the call."""
    late: bool = False
    """Whether, as the contestant claims, its device had to wait for its host."""
    wall_ns: float = math.nan
    """Time from the judge's GO to the answer."""
    profile: str | None = None
    trace: str | None = None
    shared_inputs: tuple[int, ...] = ()
    """Tensors of the input that share memory with the output, as the contestant claims."""
    repeats_itself: bool = False
    """Whether two tensors of the output share the same memory."""


class GuardBroken(BrokenProtocol):
    """Memory beside an output was written."""


class NotCommitted(Exception):
    """The answer of an armed call does not match the commitment that the device made with DONE."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """The form of a case's answers: the reference's output with its tensors emptied."""

    value: Any
    nbytes: int
    tensors: int
    in_place: bool
    """Whether a call that returns None has written its answer into its input."""

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
    """An answer that has arrived but is not decoded yet."""

    reply: dict[str, Any]
    kind: str
    wall_ns: float
    inputs: int
    most_tensors: int
    memory: wire.Arena | Copied
    pattern: torch.Tensor
    poisoned: int
    is_committed: Callable[[Sequence[torch.Tensor]], bool] | None = None
    """Returns whether these tensors match the commitment of an armed call."""


def opened(pending: Pending, record_type: wire.RecordType) -> Answer:
    """Decode an answer. Raise :class:`CallFailed`, :class:`NotCommitted` or ``BrokenProtocol``."""
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
    """Return the value of an answer. Raise :class:`GuardBroken` if its guard bands have changed."""
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
    # The commitment is compared with the copies that are checked.
    if pending.is_committed is not None and not pending.is_committed(decoder.tensors):
        raise NotCommitted
    return output


def expect(reply: dict[str, Any], kind: str) -> None:
    """Raise :class:`CallFailed` for a failure, ``BrokenProtocol`` for anything else of another type."""
    raise_failure(reply)
    if reply.get("type") != kind:
        raise BrokenProtocol(f"an answer of unknown type; expected {kind!r}")


def raise_failure(reply: dict[str, Any]) -> None:
    """Raise :class:`CallFailed` if the contestant reports that the call failed."""
    if reply.get("type") == "fail":
        kind = str(reply.get("kind"))
        if kind not in KINDS:
            raise BrokenProtocol("a failure of unknown kind")
        raise CallFailed(kind, str(reply.get("text"))[:MAX_TEXT])


def times_of(pending: Pending) -> tuple[float, float]:
    """Return the time of an answer and, if it is the judge's, the contestant's own. Raise ``BrokenProtocol``."""
    claim_ns = claimed(pending.reply.get("ns"), pending)
    return (pending.wall_ns, claim_ns) if pending.kind == TIMED else (claim_ns, math.nan)


def claimed(ns: object, pending: Pending) -> float:
    """Return the claim of an answer, never more than the judge's time; NaN if none was requested."""
    if pending.kind not in (CLAIM, TIMED):
        if ns is not None:
            raise BrokenProtocol("an answer with a time where none is due")
        return math.nan
    if not isinstance(ns, float) or not 0 < ns < math.inf:
        raise BrokenProtocol("an answer without a time")
    return min(ns, pending.wall_ns)


def was_late(reply: dict[str, Any]) -> bool:
    """Return whether a contestant reports that its device had to wait for its host."""
    return reply.get("late") is True


def end_of(table: object, size: int) -> int:
    """Return the end of a table's tensors, guard included: the part of the memory that holds the answer."""
    ends = [0]
    for entry in table if isinstance(table, list) else []:
        offset, nbytes = (
            entry.get(name) if isinstance(entry, dict) else None for name in ("offset", "nbytes")
        )
        if type(offset) is int and type(nbytes) is int:
            ends.append(wire.aligned(offset + nbytes))
    return max(POISON_BYTES, min(size, max(ends) + wire.GUARD_BYTES))


def check_guards(pending: Pending, gaps: list[tuple[int, int]]) -> None:
    """Raise :class:`GuardBroken` unless the bands around the tensors are unchanged."""
    twice = pending.pattern.repeat(2)
    for begin, after in gaps:
        # Beyond the poisoned part the earlier contents are unknown.
        end = min(after, pending.poisoned)
        if begin >= end:
            continue
        band, first = pending.memory.bytes[begin:end].clone(), begin % POISON_BYTES
        if not torch.equal(band, twice[first : first + end - begin]):
            raise GuardBroken("memory beside an output was written")
