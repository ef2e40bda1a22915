"""The judge's side of one call: input into shared memory, answer out of it, nothing believed."""

from __future__ import annotations

import math
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness import wire
from kernelcup_harness.frames import BrokenProtocol, Channel

POISON_BYTES = 4096
SMALLEST_ARENA = 1 << 20
OUTPUT_HEADROOM = 64 << 20
MAX_TEXT = 16 << 10
MAX_PROFILE = 256 << 10
MAX_TRACE = 8 << 20
KINDS = frozenset({"exception", "compile", "memory", "output", "too_large"})


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


class Caller:
    """Sends inputs, receives outputs; owns the two arenas."""

    def __init__(self, channel: Channel, record_type: wire.RecordType, result_bytes: int) -> None:
        self._channel = channel
        self._record_type = record_type
        self._result_bytes = result_bytes
        self._inputs: wire.Arena | None = None
        self._outputs: wire.Arena | None = None
        self._fresh: list[tuple[str, int]] = []
        self._output_bytes = 0
        self.expected: Any = None
        """The reference's output for the first sample of the case, None where there is no reference."""
        self.waited_s = 0.0
        """Seconds spent waiting for answers, since somebody last set it to zero."""
        self._in_place = False

    def expect(self, expected: Any, *, in_place: bool) -> None:
        """Take the reference's output as the form that answers must have.

        With ``in_place`` a call that returns None has answered in its input.
        """
        self.expected = expected
        self._in_place = in_place
        self._output_bytes = wire.nbytes(expected, "output")

    def call(self, data: Any, *, timeout_s: float, profile: bool) -> Answer:
        """Have ``data`` computed once.

        Raise :class:`CallFailed`, or what the channel raises: ``ChannelTimeout``,
        ``ChannelClosed``, ``BrokenProtocol``.
        """
        frame = self._prepare(data, profile)
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
        return self._answer(reply, wall_ns, profile)

    def _prepare(self, data: Any, profile: bool) -> dict[str, Any]:
        encoder = wire.Encoder()
        tree = encoder.tree(data, "input")
        self._inputs = self._arena("inputs", self._inputs, encoder.nbytes)
        capacity = self._capacity()
        self._outputs = self._arena("outputs", self._outputs, capacity)
        encoder.write(self._inputs)
        self._poison(self._outputs)
        return {
            "type": "call",
            "id": secrets.randbits(53),
            "tree": tree,
            "table": encoder.table(),
            "arenas": [name for name, _fd in self._fresh],
            "in_place": self._in_place,
            "profile": profile,
        }

    def _capacity(self) -> int:
        if self.expected is None:
            return self._result_bytes
        return min(self._result_bytes, 2 * self._output_bytes + OUTPUT_HEADROOM)

    def _arena(self, name: str, arena: wire.Arena | None, size: int) -> wire.Arena:
        if arena is not None and arena.size >= size:
            return arena
        if arena is not None:
            arena.close()
        made = wire.Arena.create(max(size, SMALLEST_ARENA))
        self._fresh.append((name, made.fd))
        return made

    def _poison(self, arena: wire.Arena) -> None:
        """Fill the place of the answer with a random pattern, so that an old answer is gone."""
        count = min(arena.size, max(self._output_bytes, POISON_BYTES))
        pattern = torch.frombuffer(bytearray(os.urandom(POISON_BYTES)), dtype=torch.uint8)
        whole = count // POISON_BYTES * POISON_BYTES
        arena.bytes[:whole].view(-1, POISON_BYTES).copy_(pattern)
        arena.bytes[whole:count].copy_(pattern[: count - whole])

    def _answer(self, reply: dict[str, Any], wall_ns: float, profile: bool) -> Answer:
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
        assert self._outputs is not None
        try:
            decoder = wire.Decoder(self._outputs, reply.get("table"), self._record_type, dense=True)
            output = decoder.value(reply.get("tree"))
        except wire.BadTree as error:
            if "not defined in the task's files" in str(error):
                raise CallFailed(
                    "output", f"the call returned a class of its own: {error}"[:MAX_TEXT]
                ) from error
            raise BrokenProtocol(str(error)) from error
        return Answer(output=output, ns=min(ns, wall_ns), wall_ns=wall_ns)
