"""A contestant's reply to a call, as read by the judge: nothing in it is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.wire import aliasing, decode, sparse, values
from kernelcup_harness.wire.channel import BrokenProtocol
from kernelcup_harness.wire.guards import POISON_BYTES
from kernelcup_harness.wire.messages import Done, Failed, FailureKind, Profiled, unpack

MOST_TENSORS = 1024
"""Most tensors of an answer, unless the reference's has more: each costs the judge time."""
NOISE = 0x5B
"""The byte that the judge writes over inputs. Numbers made of it are finite, and far from what answers mostly have."""


class CallFailed(Exception):
    """The contestant reports that the call failed, and how."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The result of one call."""

    output: Any = None
    ns: float = math.nan
    """The time of the call: the timer's if it was replayed, otherwise by the judge's wall clock."""
    own_ns: float = math.nan
    """The contestant's own, unverified time of the call; NaN if it was replayed."""
    wall_ns: float = math.nan
    """Time by the judge's wall clock."""
    profile: str | None = None
    trace: str | None = None
    shared_inputs: tuple[int, ...] = ()
    """Tensors of the input that share memory with the output, by their addresses in the window."""
    overwritten: bool = False
    """Whether inputs were overwritten before the judge got the output."""


class GuardBroken(BrokenProtocol):
    """Memory beside an output was written."""


class Forged(BrokenProtocol):
    """A time that only a forged clock can show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """The form of a case's answers: the reference's output with its tensors emptied."""

    value: Any
    nbytes: int
    tensors: int
    in_place: bool
    """Whether a call's answer is its input afterwards, whatever it returns."""
    written: frozenset[int] = frozenset()
    """Tensors of the input that the reference wrote, by number in the tree."""
    unread: frozenset[int] = frozenset()
    """Those that no operation of torch read."""
    private: frozenset[int] = frozenset()
    """Those whose memory an answer may not use."""
    varies: bool = False
    """Whether another input of equal shapes may have an answer of another form."""
    numbers: frozenset[int] = frozenset()
    """Leaves of the input that are no tensors and that the reference changed, by number among them."""
    reference_s: float = 0.0
    """Seconds that the reference took for it."""
    described: Any = None
    """What a contestant may know of it: structure, shapes and dtypes, and that it is written in place; no values."""

    @classmethod
    def of(cls, expected: Any, *, in_place: bool, **uses: Any) -> Form:
        """Take the form of the reference's output. Raise ``CannotCarry``."""
        nbytes = values.output_nbytes(expected, "output")
        count = len(aliasing.leaves(expected))
        value, encoder = values.form_of(expected), values.Encoder()
        tree = encoder.tree(values.outline(value), "output")
        described = {"tree": tree, "table": encoder.table(), "in_place": in_place}
        return cls(value=value, nbytes=nbytes, tensors=count, in_place=in_place, described=described, **uses)


class Copied:
    """The bytes of an answer in the judge's own memory, until the next call."""

    def __init__(self, data: torch.Tensor) -> None:
        self.bytes = data
        self.size = data.numel()

    def take(self, device: str, offset: int, nbytes: int) -> torch.Tensor:
        """Return a part on a device; without a copy if it is there already."""
        return self.bytes[offset : offset + nbytes].to("cuda" if device == "cuda:0" else "cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """An answer that has arrived but is not decoded yet."""

    reply: Done | Profiled | Failed
    wall_ns: float
    most_tensors: int
    memory: values.Memory
    check_bands: Callable[[list[tuple[int, int]]], None]
    """Raises :class:`GuardBroken` if memory between the tensors, given as gaps, was written."""
    overwritten: bool = False
    """Whether inputs were overwritten before the answer was handed over."""


def opened(pending: Pending, record_type: decode.RecordType) -> Answer:
    """Decode an answer. Raise :class:`CallFailed` or ``BrokenProtocol``."""
    if isinstance(pending.reply, Profiled):
        profile, trace = pending.reply.text, pending.reply.trace
        return Answer(profile=profile, trace=trace, wall_ns=pending.wall_ns)
    own_ns = claimed(pending)
    output = read(pending, record_type)
    return Answer(
        output=output,
        ns=pending.wall_ns,
        own_ns=own_ns,
        wall_ns=pending.wall_ns,
        overwritten=pending.overwritten,
    )


def read(pending: Pending, record_type: decode.RecordType) -> Any:
    """Return the value of an answer. Raise :class:`GuardBroken` if its guard bands have changed."""
    reply = returned(pending)
    table = reply.table
    if isinstance(table, list) and len(table) > pending.most_tensors:
        raise CallFailed(FailureKind.OUTPUT, f"the call returned {len(table)} tensors")
    output, gaps = decoded(pending.memory, table, reply.tree, record_type)
    pending.check_bands(gaps)
    return output


def decoded(
    memory: values.Memory, table: Any, tree: Any, record_type: decode.RecordType
) -> tuple[Any, list[tuple[int, int]]]:
    """Return a value, and the gaps between its tensors. Raise :class:`CallFailed` or ``BrokenProtocol``."""
    try:
        decoder = decode.Decoder(memory, table, record_type, dense=True)
        return decoder.value(tree), decoder.gaps
    except sparse.Broken as error:
        raise CallFailed(FailureKind.OUTPUT, f"the call returned {error}") from error
    except values.BadTree as error:
        raise BrokenProtocol(str(error)) from error


def returned(pending: Pending) -> Done:
    """Return the reply of a call that has returned. Raise :class:`CallFailed` or ``BrokenProtocol``."""
    if isinstance(pending.reply, Failed):
        raise call_failed(pending.reply)
    if not isinstance(pending.reply, Done):
        raise BrokenProtocol("a profile that was not asked for")
    return pending.reply


def raise_failure(frame: dict[str, Any]) -> None:
    """Raise :class:`CallFailed` if a contestant's frame reports that its submission failed."""
    if frame.get("type") == Failed.type:
        raise call_failed(unpack(Failed, frame))


def call_failed(failed: Failed) -> CallFailed:
    """Return the failure of a call. Raise ``BrokenProtocol`` if calls cannot fail in this way."""
    if failed.kind is FailureKind.IMPORT:
        raise BrokenProtocol("a call that failed to be imported")
    return CallFailed(failed.kind, failed.text)


def claimed(pending: Pending) -> float:
    """Return the contestant's own time in nanoseconds, at most the judge's.

    Raise :class:`CallFailed` or ``BrokenProtocol``.
    """
    ns = returned(pending).ns
    if not 0 < ns < math.inf:
        raise BrokenProtocol("an answer without a time")
    return min(ns, pending.wall_ns)


def end_of(table: object, size: int) -> int:
    """Return the end of a table's tensors, guard included: the part of the memory that holds the answer."""
    ends = [0]
    for entry in table if isinstance(table, list) else []:
        offset, nbytes = (
            entry.get(name) if isinstance(entry, dict) else None for name in ("offset", "nbytes")
        )
        if type(offset) is int and type(nbytes) is int:
            ends.append(values.aligned(offset + nbytes))
    return max(POISON_BYTES, min(size, max(ends) + values.GUARD_BYTES))


def check_guards(
    memory: torch.Tensor, pattern: torch.Tensor, poisoned: int, gaps: list[tuple[int, int]]
) -> None:
    """Raise :class:`GuardBroken` unless the bands around the tensors are unchanged.

    Args:
        memory: The bytes of the answer.
        pattern: The pattern that was there before the call, repeated.
        poisoned: How many bytes had it; beyond these the earlier contents are unknown.
        gaps: First and last byte of each band.
    """
    twice = pattern.repeat(2)
    for begin, after in gaps:
        end = min(after, poisoned)
        if begin >= end:
            continue
        band, first = memory[begin:end].clone(), begin % POISON_BYTES
        if not torch.equal(band, twice[first : first + end - begin]):
            raise GuardBroken("memory beside an output was written")
