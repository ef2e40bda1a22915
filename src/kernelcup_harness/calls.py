"""The judge's side of one call: writes the input into shared memory and reads the answer from it, unverified."""

from __future__ import annotations

import contextlib
import ctypes
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelcup_harness import aliasing, masks, wire
from kernelcup_harness.answers import (
    CLAIM,
    HANDSHAKE,
    MOST_TENSORS,
    PROFILE,
    RING,
    TIMED,
    Answer,
    Copied,
    Form,
    Pending,
    end_of,
    expect,
    opened,
)
from kernelcup_harness.frames import BrokenProtocol, Channel, ChannelTimeout
from kernelcup_harness.pages import Page
from kernelcup_harness.poison import Poison

MOST_BY_HOST = 1 << 20
SMALLEST_ARENA = 1 << 20
OUTPUT_HEADROOM = 64 << 20
LONGEST_WAKE_NS = 2_000_000
QUICK_ANSWERS, QUICK = 6, 1.25
"""The contestant is awake after this many answers in a row within this factor of the quickest."""
ARMING_S = 0.3
"""A call that is still not queued by then synchronizes with the device, so it cannot be armed."""
LONGEST_ARMED_S = 10.0
LEAST_SETTLE_S = 1.0
MOST_ARMED = 128
"""Calls that answer with more tensors are not armed: a waiting stream accepts a limited number of launches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The input that a slot of the contestant holds, or receives with the call."""

    layout: dict[str, Any]
    seed: int | None
    """The seed that unmasks the input; None if the input comes with the call."""
    form: Form | None
    plain: wire.Encoder | None
    """The input itself, if it goes with the call."""

    @property
    def inputs(self) -> int:
        """Number of tensors of the input."""
        return len(self.layout["table"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Armed:
    """A finished armed call."""

    wall_ns: float
    digest: bytes
    """The commitment to its answer."""
    given: Given
    described: dict[str, Any]
    """The answer except its bytes, as described before the input could be read."""


class Caller:
    """Sends inputs, receives outputs.

    An input is sent masked; the seed that unmasks it comes with the call. Before the call the
    contestant has nothing to compute with. If masking is slower than copying, the input itself
    comes with the call, in memory of its own.

    Args:
        channel: To the contestant.
        record_type: Finds classes of answers by name.
        result_bytes: Most bytes that one call may return.
        mask: Masks inputs; by default on the processor.
    """

    def __init__(
        self,
        channel: Channel,
        record_type: wire.RecordType,
        result_bytes: int,
        mask: masks.Mask | None = None,
    ) -> None:
        self._channel = channel
        self._record_type = record_type
        self._result_bytes = result_bytes
        self._mask = mask or masks.Mask(gpu=False)
        self._inputs: dict[int, wire.Arena] = {}
        self._given: dict[int, Given] = {}
        self._outputs: wire.Arena | None = None
        self._fresh: list[tuple[str, int]] = []
        self._poison = Poison(gpu=self._mask.gpu)
        self._covered = torch.empty(0, dtype=torch.uint8)
        self._awake = False
        self._page: Page | None = None
        self._private = torch.empty(0, dtype=torch.uint8)
        """The judge's own memory for answers, while the clock runs."""
        self.waited_s = 0.0
        """Seconds spent waiting for answers since it was last set to zero."""

    def call(
        self,
        data: Any,
        form: Form | None = None,
        *,
        timeout_s: float,
        profile: bool = False,
        kind: str = CLAIM,
    ) -> Answer:
        """Call the contestant once with ``data``; ``form`` is None if there is no reference.

        Raise :class:`CallFailed`, or what the channel raises: ``ChannelTimeout``,
        ``ChannelClosed``, ``BrokenProtocol``.
        """
        deadline = time.monotonic() + timeout_s
        self.give(0, data, form, timeout_s=timeout_s)
        left = max(0.0, deadline - time.monotonic())
        return self.open(self.go(0, PROFILE if profile else kind, timeout_s=left))

    def give(self, slot: int, data: Any, form: Form | None = None, *, timeout_s: float) -> None:
        """Put an input into a slot, masked so that it cannot be read. Raise as :meth:`call` does."""
        encoder = wire.Encoder()
        tree = encoder.tree(data, "input")
        size = masks.padded(encoder.nbytes)
        layout = {
            "tree": tree,
            "table": encoder.table(),
            "bytes": size,
            "in_place": form is not None and form.in_place,
        }
        if not encoder.nbytes or not self._mask.allows(size):
            self._given[slot] = Given(layout=layout, seed=None, form=form, plain=encoder)
            return
        seed = masks.draw_seed()
        self._given[slot] = Given(layout=layout, seed=seed, form=form, plain=None)
        self._cover(slot, encoder, size, seed)
        reply, _wall_ns = self._ask({"type": "give", "slot": slot, "layout": layout}, timeout_s)
        expect(reply, "given")

    def give_again(self, slot: int, *, timeout_s: float) -> None:
        """Send the input of a slot once more, masked as before. Raise as :meth:`call` does."""
        frame = {"type": "give", "slot": slot, "layout": self._given[slot].layout}
        self.ask(frame, "given", timeout_s=timeout_s)

    def forget(self, *, timeout_s: float) -> None:
        """Have all memory of inputs and answers freed. Raise as :meth:`call` does."""
        for arena in self._inputs.values():
            arena.close()
        self._inputs.clear()
        self._given.clear()
        self.ask({"type": "forget"}, "forgotten", timeout_s=timeout_s)

    def place(self, slot: int, *, timeout_s: float) -> None:
        """Let the input of a slot be read without a call. Raise as :meth:`call` does."""
        reply, _wall_ns = self._ask({"type": "place", **self._handed_over(slot)}, timeout_s)
        expect(reply, "placed")

    def go(self, slot: int, kind: str, *, timeout_s: float, keep: bool = False) -> Pending:
        """Call the contestant once with the input of a slot. Raise what the channel raises.

        The answer must be opened before the next call unless it is kept, which copies it.
        """
        given = self._given[slot]
        self._make_room(given.form, by_host=sys.maxsize if keep else MOST_BY_HOST)
        frame = {"type": "go", "kind": kind, **self._handed_over(slot)}
        if self._awake:
            self._wake(timeout_s)
        reply, wall_ns = self._ask(frame, timeout_s)
        return self._pending(reply, kind, wall_ns, given, keep=keep)

    def timed(self, slot: int, data: Any, form: Form | None, *, timeout_s: float) -> Pending:
        """Call once with an input, timed from before it is handed out until the judge has the answer.

        Both copies through shared memory are included, so the time cannot be made to look shorter. Memory is shared
        and mapped before the clock starts. Open the answer before the next call. Raise as :meth:`call` does.
        """
        encoder = wire.Encoder()
        tree = encoder.tree(data, "input")
        layout = {
            "tree": tree,
            "table": encoder.table(),
            "bytes": masks.padded(encoder.nbytes),
            "in_place": form is not None and form.in_place,
        }
        arena = self._inputs[slot] = self._arena("inputs", self._inputs.get(slot), layout["bytes"])
        self._make_room(form, by_host=sys.maxsize)
        self._given[slot] = given = Given(layout=layout, seed=None, form=form, plain=None)
        # This creates the tensors over whatever the memory holds.
        self.ask({"type": "give", "slot": slot, "layout": layout}, "given", timeout_s=timeout_s)
        frame = {"type": "go", "kind": CLAIM, "slot": slot, "seed": None, "layout": None, "fill": True}
        begin = time.perf_counter_ns()
        encoder.write(arena)
        reply, _wall_ns = self._ask(frame, timeout_s)
        assert self._outputs is not None
        memory = self._taken(end_of(reply.get("table"), self._outputs.size))
        wall_ns = float(time.perf_counter_ns() - begin)
        return replace(self._pending(reply, TIMED, wall_ns, given, keep=False), memory=memory)

    def _taken(self, size: int) -> Copied:
        """Copy the answer into memory that only the judge can write."""
        assert self._outputs is not None
        if self._private.numel() < size:
            self._private = torch.empty(size, dtype=torch.uint8)
        private = self._private[:size]
        ctypes.memmove(private.data_ptr(), self._outputs.bytes.data_ptr(), size)
        return Copied(private)

    def can_arm(self, slot: int) -> bool:
        """Return whether, on the judge's side, the input of a slot can be armed."""
        given = self._given[slot]
        if given.seed is None or self._mask.code is None or given.form is None:
            return False
        # The commitment is computed on the answer's device, from at least one byte, with one launch for each tensor.
        tensors = aliasing.leaves(given.form.value)
        has_bytes = given.form.value is None or any(each.numel() for each in tensors)
        return (
            has_bytes
            and len(tensors) <= MOST_ARMED
            and all(each.is_cuda == self._mask.gpu for each in tensors)
        )

    def armed(
        self, slot: int, *, replay: bool, timeout_s: float, patience_s: float = ARMING_S
    ) -> Armed | None:
        """Call once with the input of a slot, with everything queued on the device before it gets the key.

        No process takes part between GO and DONE, so the time hardly jitters. Neither does the bus: DONE carries
        only a commitment to the answer, which :meth:`collect` fetches. Return None if the call cannot be armed,
        for example because it waits for the device. Raise as :meth:`call` does.

        Args:
            slot: A slot for which :meth:`can_arm` returns True.
            replay: Whether to queue the slot's captured graph instead of a call.
            timeout_s: For the whole call.
            patience_s: For queueing everything.
        """
        given = self._given[slot]
        assert given.seed is not None
        assert given.form is not None
        seed, page, number = given.seed, self._cleared_page(), secrets.randbits(63) + 1
        frame = {
            "type": "arm",
            "slot": slot,
            "layout": None,
            "replay": replay,
            "number": number,
            "bytes": given.form.nbytes,
        }
        deadline = time.monotonic() + timeout_s
        described = self._queued(frame, lambda: page.release(seed, number), patience_s, deadline)
        if described is None:
            return None
        wall_ns, digest = self._told(page, seed, number, deadline)
        return Armed(wall_ns=wall_ns, digest=digest, given=given, described=described)

    def collect(self, armed: Armed, *, timeout_s: float) -> Pending:
        """Fetch the answer of the last armed call; it has to match the commitment. Raise as :meth:`go` does."""
        code = self._mask.code
        assert code is not None
        self._make_room(armed.given.form)
        reply, _wall_ns = self._ask({"type": "collect"}, timeout_s)
        expect(reply, "collected")
        described = {**armed.described, "type": "done", "ns": None}
        pending = self._pending(described, HANDSHAKE, armed.wall_ns, armed.given, keep=False)

        def is_committed(tensors: Sequence[torch.Tensor]) -> bool:
            return code.digest([wire.bytes_of(each) for each in tensors if each.numel()]) == armed.digest

        return replace(pending, is_committed=is_committed)

    def _queued(
        self, frame: dict[str, Any], release: Callable[[], None], patience_s: float, deadline: float
    ) -> dict[str, Any] | None:
        """Have a call queued. Return the description of its answer, None if the call cannot be armed."""
        number = self._send(frame, deadline - time.monotonic())
        try:
            ready = self._reply(number, min(patience_s, deadline - time.monotonic()))
            if ready.get("type") == "armed" and ready.get("ok") is True:
                return ready
        except ChannelTimeout:
            # The call waits for the device, which waits for the judge.
            release()
            self._reply(number, deadline - time.monotonic())
            return None
        release()
        return None

    def _told(self, page: Page, seed: int, number: int, deadline: float) -> tuple[float, bytes]:
        """Signal GO; return the nanoseconds until the device was done, and its commitment.

        Raise as :meth:`call` does.
        """
        began = time.monotonic()
        until = min(deadline, began + LONGEST_ARMED_S)
        told = None
        with contextlib.suppress(ChannelTimeout):
            page.wait_until_ready(number, until - time.monotonic(), self._look)
            told = page.go(seed, number, until - time.monotonic(), self._look)
        self.waited_s += time.monotonic() - began
        if told is not None:
            return told
        # A failed device never signals; its process knows the error.
        page.release(seed, number)
        self.ask({"type": "settle"}, "settled", timeout_s=max(LEAST_SETTLE_S, deadline - time.monotonic()))
        raise BrokenProtocol("an armed call that never finished")

    def _cleared_page(self) -> Page:
        if self._page is None:
            self._page = Page()
            self._fresh.append(("page", self._page.arena.fd))
        self._page.clear()
        return self._page

    def _look(self) -> None:
        """Raise if the contestant is gone or sends a frame, which it has no reason to do."""
        if self._channel.has_pending():
            raise BrokenProtocol("an unexpected frame")

    def read(self, slot: int, place: int, *, timeout_s: float) -> Answer:
        """Return the answer that the last pass left at a place of the ring; its form is that of ``slot``."""
        given = self._given[slot]
        self._make_room(given.form)
        reply, wall_ns = self._ask({"type": "read", "place": place}, timeout_s)
        return self.open(self._pending(reply, RING, wall_ns, given, keep=False))

    def ask(self, frame: dict[str, Any], expected: str, *, timeout_s: float) -> tuple[dict[str, Any], float]:
        """Send a frame that needs no input; return the reply of the expected type and the wall clock (ns)."""
        reply, wall_ns = self._ask(frame, timeout_s)
        expect(reply, expected)
        return reply, wall_ns

    def open(self, pending: Pending) -> Answer:
        """Decode an answer. Raise :class:`CallFailed` or ``BrokenProtocol``."""
        return opened(pending, self._record_type)

    def close(self) -> None:
        """Free the shared memory."""
        page = self._page.arena if self._page is not None else None
        for arena in (*self._inputs.values(), self._outputs, page):
            if arena is not None:
                arena.close()
        self._inputs, self._outputs, self._page = {}, None, None

    def _handed_over(self, slot: int) -> dict[str, Any]:
        """Return the part of a frame that makes the input of a slot readable."""
        given = self._given[slot]
        if given.plain is None:
            return {"slot": slot, "seed": given.seed, "layout": None}
        # In memory that the contestant has never seen: otherwise it could read the input while it is written.
        if slot in self._inputs:
            self._inputs.pop(slot).close()
        arena = self._inputs[slot] = self._arena("inputs", None, given.layout["bytes"])
        given.plain.write(arena)
        return {"slot": slot, "seed": None, "layout": given.layout}

    def _cover(self, slot: int, encoder: wire.Encoder, size: int, seed: int) -> None:
        """Write an input into the arena of its slot, masked: never in the clear."""
        if self._covered.numel() < size:
            device = "cuda" if self._mask.gpu else "cpu"
            self._covered = torch.zeros(size, dtype=torch.uint8, device=device)
        covered = self._covered[:size]
        encoder.fill(covered)
        self._mask.toggle(covered, seed)
        arena = self._inputs[slot] = self._arena("inputs", self._inputs.get(slot), size)
        arena.pin(size)
        arena.bytes[:size].copy_(covered)

    def _make_room(self, form: Form | None, *, by_host: int = MOST_BY_HOST) -> None:
        """Prepare memory for an answer: up to ``by_host`` bytes on the processor, larger answers on the device."""
        expected = form.nbytes if form is not None else 0
        self._outputs = self._arena("outputs", self._outputs, self._capacity(form))
        self._poison.fill(self._outputs, expected, by_host=by_host)

    def _ask(
        self, frame: dict[str, Any], timeout_s: float, *, bare: bool = False
    ) -> tuple[dict[str, Any], float]:
        """Send a frame and return the reply, with the wall-clock time in between in nanoseconds.

        New shared memory goes with the frame, unless it is ``bare``.
        """
        begin = time.perf_counter_ns()
        number = self._send(frame, timeout_s, bare=bare)
        reply = self._reply(number, timeout_s - (time.perf_counter_ns() - begin) / 1e9)
        return reply, float(time.perf_counter_ns() - begin)

    def _send(self, frame: dict[str, Any], timeout_s: float, *, bare: bool = False) -> int:
        """Send a frame, with new shared memory unless it is ``bare``; return its number."""
        fresh = [] if bare else self._fresh
        number = secrets.randbits(53)
        frame = {**frame, "id": number, "arenas": [name for name, _fd in fresh]}
        fds = [fd for _name, fd in fresh]
        if self._channel.has_pending():
            raise BrokenProtocol("an unexpected frame")
        self._channel.send(frame, fds, timeout_s)
        fresh.clear()
        return number

    def _reply(self, number: int, timeout_s: float) -> dict[str, Any]:
        """Return the reply to a frame."""
        begin = time.perf_counter_ns()
        try:
            reply = self._channel.receive(max(0.0, timeout_s))
        finally:
            self.waited_s += (time.perf_counter_ns() - begin) / 1e9
        if reply.get("id") != number:
            raise BrokenProtocol("an answer to another call")
        return reply

    @contextmanager
    def awake(self, timeout_s: float) -> Iterator[None]:
        """Keep both sides from sleeping between calls in this context, if handshakes are timed on a GPU."""
        self._channel.busy_s = masks.busy_s()
        if not self._channel.busy_s:
            yield
            return
        self._awake = True
        try:
            yield
        finally:
            self._awake = False
            self._channel.busy_s = 0.0
        expect(self._ask({"type": "rest"}, timeout_s, bare=True)[0], "rests")

    def _wake(self, timeout_s: float) -> None:
        """Exchange frames until the contestant answers quickly: it has slept since the last call."""
        until = time.perf_counter_ns() + LONGEST_WAKE_NS
        quickest, quick = math.inf, 0
        while quick < QUICK_ANSWERS and time.perf_counter_ns() < until:
            reply, wall_ns = self._ask({"type": "wake"}, timeout_s, bare=True)
            expect(reply, "awake")
            quickest = min(quickest, wall_ns)
            quick = quick + 1 if wall_ns <= QUICK * quickest else 0

    def _pending(
        self, reply: dict[str, Any], kind: str, wall_ns: float, given: Given, *, keep: bool
    ) -> Pending:
        assert self._outputs is not None
        memory: wire.Arena | Copied = self._outputs
        if keep:
            memory = Copied(copied(self._outputs.bytes[: end_of(reply.get("table"), memory.size)]))
        return Pending(
            reply=reply,
            kind=kind,
            wall_ns=wall_ns,
            inputs=given.inputs,
            most_tensors=max(MOST_TENSORS, given.form.tensors if given.form is not None else 0),
            memory=memory,
            pattern=self._poison.pattern,
            poisoned=min(self._poison.count, memory.size),
        )

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


def copied(source: torch.Tensor) -> torch.Tensor:
    """Return a copy of bytes on the host, made by one thread.

    PyTorch would use all cores, and its threads keep polling for work while a handshake is timed.
    """
    copy = torch.empty(source.numel(), dtype=torch.uint8)
    ctypes.memmove(copy.data_ptr(), source.data_ptr(), source.numel())
    return copy
