"""The judge's side of one call: input into shared memory, answer out of it, nothing believed."""

from __future__ import annotations

import math
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness import aliasing, wire
from kernelcup_harness.frames import BrokenProtocol, Channel

POISON_BYTES = 4096
SMALLEST_ARENA = 1 << 20
OUTPUT_HEADROOM = 64 << 20
MAX_TEXT = 16 << 10
MAX_PROFILE = 256 << 10
MAX_TRACE = 8 << 20
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
    """The contestant's claim."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """What the answers to a case look like: the reference's output with its tensors emptied."""

    value: Any
    nbytes: int
    in_place: bool
    """Whether a call that returns None has answered in its input."""

    @classmethod
    def of(cls, expected: Any, *, in_place: bool) -> Form:
        """Take the form of the reference's output. Raise ``CannotCarry``."""
        nbytes = wire.output_nbytes(expected, "output")
        return cls(value=wire.form_of(expected), nbytes=nbytes, in_place=in_place)


class Caller:
    """Sends inputs, receives outputs.

    Each input comes in shared memory of its own, whose descriptor goes with the call: before that
    there is nothing that the contestant could read. The memory for outputs stays.
    """

    def __init__(self, channel: Channel, record_type: wire.RecordType, result_bytes: int) -> None:
        self._channel = channel
        self._record_type = record_type
        self._result_bytes = result_bytes
        self._inputs: wire.Arena | None = None
        self._outputs: wire.Arena | None = None
        self._fresh: list[tuple[str, int]] = []
        self._pattern = torch.empty(0, dtype=torch.uint8)
        self._poisoned = 0
        self.waited_s = 0.0
        """Seconds spent waiting for answers, since somebody last set it to zero."""

    def call(self, data: Any, form: Form | None = None, *, timeout_s: float, profile: bool = False) -> Answer:
        """Have ``data`` computed once; ``form`` is None where there is no reference.

        Raise :class:`CallFailed`, or what the channel raises: ``ChannelTimeout``,
        ``ChannelClosed``, ``BrokenProtocol``.
        """
        frame = self._prepare(data, form, profile)
        fds = [fd for _name, fd in self._fresh]
        if self._channel.has_pending():
            raise BrokenProtocol("a frame that nobody asked for")
        begin = time.perf_counter_ns()
        try:
            self._channel.send(frame, fds, timeout_s)
            self._fresh.clear()
            left = timeout_s - (time.perf_counter_ns() - begin) / 1e9
            reply = self._channel.receive(max(0.0, left))
        finally:
            wall_ns = float(time.perf_counter_ns() - begin)
            self.waited_s += wall_ns / 1e9
        if reply.get("id") != frame["id"]:
            raise BrokenProtocol("an answer to another call")
        return self._answer(reply, wall_ns, profile, len(frame["table"]))

    def _prepare(self, data: Any, form: Form | None, profile: bool) -> dict[str, Any]:
        encoder = wire.Encoder()
        tree = encoder.tree(data, "input")
        if self._inputs is not None:
            self._inputs.close()
        self._inputs = self._arena("inputs", None, encoder.nbytes)
        expected = form.nbytes if form is not None else 0
        self._outputs = self._arena("outputs", self._outputs, self._capacity(form))
        encoder.write(self._inputs)
        self._poison(self._outputs, expected)
        return {
            "type": "call",
            "id": secrets.randbits(53),
            "tree": tree,
            "table": encoder.table(),
            "arenas": [name for name, _fd in self._fresh],
            "in_place": form is not None and form.in_place,
            "profile": profile,
        }

    def _capacity(self, form: Form | None) -> int:
        if form is None:
            return self._result_bytes
        return min(self._result_bytes, 2 * form.nbytes + OUTPUT_HEADROOM)

    def _arena(self, name: str, arena: wire.Arena | None, size: int) -> wire.Arena:
        if arena is not None and arena.size >= size:
            return arena
        if arena is not None:
            arena.close()
        made = wire.Arena.create(max(size, SMALLEST_ARENA))
        self._fresh.append((name, made.fd))
        return made

    def _poison(self, arena: wire.Arena, expected: int) -> None:
        """Fill the place of the answer with a random pattern, so that an old answer is gone."""
        count = min(arena.size, max(expected, POISON_BYTES))
        pattern = torch.frombuffer(bytearray(os.urandom(POISON_BYTES)), dtype=torch.uint8)
        whole = count // POISON_BYTES * POISON_BYTES
        arena.bytes[:whole].view(-1, POISON_BYTES).copy_(pattern)
        arena.bytes[whole:count].copy_(pattern[: count - whole])
        self._pattern, self._poisoned = pattern, count

    def _check_guards(self, gaps: list[tuple[int, int]]) -> None:
        """Raise :class:`GuardBroken` unless the bands around the tensors are as they were made."""
        assert self._outputs is not None
        for begin, after in gaps:
            # Beyond what was poisoned nobody knows what had been there.
            end = min(after, self._poisoned)
            if begin >= end:
                continue
            band = self._outputs.bytes[begin:end].clone()
            if not torch.equal(band, self._pattern.roll(-(begin % POISON_BYTES))[: end - begin]):
                raise GuardBroken("something was written beside an output")

    def _answer(self, reply: dict[str, Any], wall_ns: float, profile: bool, inputs: int) -> Answer:
        if reply.get("type") == "fail":
            kind = str(reply.get("kind"))
            if kind not in KINDS:
                raise BrokenProtocol("a failure of unknown kind")
            raise CallFailed(kind, str(reply.get("text"))[:MAX_TEXT])
        if profile and reply.get("type") == "profile":
            trace = str(reply.get("trace"))
            return Answer(
                profile=str(reply.get("text"))[:MAX_PROFILE],
                trace=trace if len(trace) <= MAX_TRACE else None,
                wall_ns=wall_ns,
            )
        ns = reply.get("ns")
        if reply.get("type") != "done" or not isinstance(ns, float) or not 0 < ns < math.inf:
            raise BrokenProtocol("an answer of unknown type or without a time")
        output = self._output(reply)
        count = len(aliasing.leaves(output))
        try:
            shared = aliasing.places(reply.get("shared"), (count, inputs))
            repeated = aliasing.places(reply.get("repeated"), (count, count))
        except ValueError as error:
            raise BrokenProtocol(f"an answer whose sharing of memory is {error}") from error
        return Answer(
            output=output,
            ns=min(ns, wall_ns),
            wall_ns=wall_ns,
            shared_inputs=tuple(sorted({place for _, place in shared})),
            repeats_itself=bool(repeated),
        )

    def _output(self, reply: dict[str, Any]) -> Any:
        assert self._outputs is not None
        try:
            decoder = wire.Decoder(self._outputs, reply.get("table"), self._record_type, dense=True)
            output = decoder.value(reply.get("tree"))
        except wire.BadTree as error:
            if "not defined in the task's files" in str(error):
                text = f"the call returned a class of its own: {error}"[:MAX_TEXT]
                raise CallFailed("output", text) from error
            raise BrokenProtocol(str(error)) from error
        self._check_guards(decoder.gaps)
        return output
