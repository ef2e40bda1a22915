"""The judge's side of one call: writes the input into shared memory, has the submission called, takes the answer.

The judge's clock runs from before the input is written until the judge has a copy of the whole answer in its own
memory. So no time can be made to look shorter: whoever reads early finds nothing, and what is written late is missing.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection
from functools import partial
from typing import Any, Protocol

import torch

from kernelcup_harness.core.answer import (
    MOST_TENSORS,
    NOISE,
    Answer,
    Copied,
    Form,
    Pending,
    check_guards,
    end_of,
    opened,
)
from kernelcup_harness.core.requests import Line
from kernelcup_harness.wire import aliasing, decode, values
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.guards import Poison
from kernelcup_harness.wire.messages import (
    ArenaName,
    Done,
    Failed,
    Forget,
    Forgotten,
    Give,
    Given,
    Go,
    InputLayout,
    Profiled,
    Returned,
    Take,
    pack,
    unpack,
)

PLACES = 4
"""Number of places at which inputs lie, in turns."""
SMALLEST_ARENA = 1 << 20
OUTPUT_HEADROOM = 64 << 20
LARGEST_IN_TURNS = 256 << 20
"""Larger inputs lie in one place: four would fill the memory."""


class Calls(Protocol):
    """Makes calls and times them; inputs and answers lie in memory that judge and contestant share."""

    def timed(self, data: Any, form: Form | None, *, timeout_s: float, profile: bool = False) -> Pending:
        """Call once; return what has arrived. Raise what the channel raises."""

    def open(self, pending: Pending) -> Answer:
        """Decode what has arrived. Raise :class:`CallFailed` or ``BrokenProtocol``."""


class Caller:
    """Sends inputs and receives answers through the host's memory.

    Args:
        channel: To the contestant.
        record_type: Finds classes of answers by name.
        result_bytes: Most bytes that one call may return.
        gpu: Whether the judge may use a GPU.
    """

    def __init__(
        self, channel: Channel, record_type: decode.RecordType, result_bytes: int, *, gpu: bool = False
    ) -> None:
        self.line = Line(channel)
        """For requests that need no input."""
        self._record_type = record_type
        self._result_bytes = result_bytes
        self._inputs: dict[int, values.Arena] = {}
        self._outputs: values.Arena | None = None
        self._fresh: dict[ArenaName, int] = {}
        """Descriptors of memory that the contestant does not have yet."""
        self._gpu = gpu
        self._poison = Poison(gpu=gpu)
        self._private = torch.empty(0, dtype=torch.uint8)
        """The judge's own memory for answers, while the clock runs."""
        self._count = 0

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for answers since it was last set to zero."""
        return self.line.waited_s

    @waited_s.setter
    def waited_s(self, seconds: float) -> None:
        self.line.waited_s = seconds

    def call(self, data: Any, form: Form | None = None, *, timeout_s: float, profile: bool = False) -> Answer:
        """Call the contestant once with ``data``; ``form`` is None if there is no reference.

        Raise :class:`CallFailed`, or what the channel raises: ``ChannelTimeout``, ``ChannelClosed``,
        ``BrokenProtocol``.
        """
        private = form.private if form is not None and not profile else frozenset()
        return self.open(self.timed(data, form, timeout_s=timeout_s, profile=profile, private=private))

    def timed(
        self,
        data: Any,
        form: Form | None,
        *,
        timeout_s: float,
        profile: bool = False,
        private: Collection[int] = (),
    ) -> Pending:
        """Call once with an input, timed from before it is handed out until the judge has the answer.

        Both copies through shared memory are included. Memory is shared and mapped before the clock starts. Open the
        answer before the next call. The judge overwrites ``private`` tensors of the input between the call's return
        and the answer's copy: an answer that lies in them is lost. Raise as :meth:`call` does.
        """
        until = time.monotonic() + timeout_s
        encoder, layout, leaves = laid_out(data, form)
        slot = self._next_slot(encoder.nbytes)
        arena = self._inputs[slot] = self._arena(ArenaName.INPUTS, self._inputs.get(slot), encoder.nbytes)
        arena.pin(encoder.nbytes)
        self._make_room(form)
        staged = self._staged_on_host(encoder)
        # This creates the tensors over whatever the memory holds.
        self._give(slot, layout, timeout_s)
        frame = pack(Go(slot=slot, profile=profile, held=bool(private), leaves=leaves or None))
        begin = time.perf_counter_ns()
        if staged is None:
            encoder.write(arena)
        else:
            ctypes.memmove(arena.bytes.data_ptr(), staged.data_ptr(), encoder.nbytes)
        reply = self.line.reply(frame, timeout_s=max(0.0, until - time.monotonic()))
        if private and reply.get("type") != Failed.type:
            unpack(Returned, reply)
            take = pack(Take(parts=overwritten(arena, encoder, data, private)))
            reply = self.line.reply(take, timeout_s=max(0.0, until - time.monotonic()))
        assert self._outputs is not None
        memory = self._taken(end_of(reply.get("table"), self._outputs.size))
        wall_ns = float(time.perf_counter_ns() - begin)
        return Pending(
            reply=read_reply(reply, profile=profile),
            wall_ns=wall_ns,
            most_tensors=max(MOST_TENSORS, form.tensors if form is not None else 0),
            memory=memory,
            check_bands=partial(
                check_guards, memory.bytes, self._poison.pattern, min(self._poison.count, memory.size)
            ),
            overwritten=bool(private),
        )

    def _give(self, slot: int, layout: InputLayout, timeout_s: float) -> None:
        """Have the tensors of an input made, in shared memory that the contestant may not have yet."""
        fresh, self._fresh = self._fresh, {}
        request = Give(slot=slot, layout=layout, arenas=list(fresh))
        self.line.ask(request, Given, timeout_s=timeout_s, fds=list(fresh.values()))

    def open(self, pending: Pending) -> Answer:
        """Decode an answer. Raise :class:`CallFailed` or ``BrokenProtocol``."""
        return opened(pending, self._record_type)

    def forget(self, *, timeout_s: float) -> None:
        """Have all memory of inputs and answers freed. Raise as :meth:`call` does."""
        for arena in self._inputs.values():
            arena.close()
        self._inputs.clear()
        self.line.ask(Forget(), Forgotten, timeout_s=timeout_s)

    def close(self) -> None:
        """Free the shared memory."""
        for arena in (*self._inputs.values(), self._outputs):
            if arena is not None:
                arena.close()
        self._inputs, self._outputs = {}, None

    def _next_slot(self, nbytes: int) -> int:
        self._count += 1
        return self._count % PLACES if nbytes <= LARGEST_IN_TURNS else 0

    def _staged_on_host(self, encoder: values.Encoder) -> torch.Tensor | None:
        """Return the bytes of an input on the host, shape (bytes,); None if they are there already.

        While the clock runs the device works for the contestant alone: a switch to the judge takes 0.1 ms and more.
        """
        if not self._gpu:
            return None
        staged = torch.empty(encoder.nbytes, dtype=torch.uint8)
        encoder.fill(staged)
        torch.cuda.synchronize()
        return staged

    def _taken(self, size: int) -> Copied:
        """Copy the answer into memory that only the judge can write."""
        assert self._outputs is not None
        if self._private.numel() < size:
            self._private = torch.empty(size, dtype=torch.uint8)
        private = self._private[:size]
        # By one thread: PyTorch's threads would keep polling for work while the clock runs.
        ctypes.memmove(private.data_ptr(), self._outputs.bytes.data_ptr(), size)
        return Copied(private)

    def _make_room(self, form: Form | None) -> None:
        """Prepare memory for an answer, with a new pattern where it is due."""
        expected = form.nbytes if form is not None else 0
        self._outputs = self._arena(ArenaName.OUTPUTS, self._outputs, self.capacity(form))
        self._poison.fill(self._outputs, expected)

    def capacity(self, form: Form | None) -> int:
        """Return how many bytes an answer may take."""
        most = 2 * form.nbytes + OUTPUT_HEADROOM if form is not None else self._result_bytes
        return min(self._result_bytes, most)

    def _arena(self, name: ArenaName, arena: values.Arena | None, size: int) -> values.Arena:
        if arena is not None and arena.size >= size:
            return arena
        if arena is not None:
            arena.close()
        made = values.Arena.create(max(size, SMALLEST_ARENA))
        self._fresh[name] = made.fd
        return made


def laid_out(data: Any, form: Form | None) -> tuple[values.Encoder, InputLayout, list[Any]]:
    """Return the encoder of an input, its layout, and its numbers and texts.

    These are told once the clock runs, when the tensors are written: they are of the input as well.
    """
    encoder = values.Encoder()
    tree = encoder.tree(data, "input")
    leaves = decode.take_leaves(tree)
    layout = InputLayout(
        tree=tree,
        table=encoder.table(),
        bytes=max(1, encoder.nbytes),
        in_place=form is not None and form.in_place,
        answer=form.described if form is not None else None,
        later=bool(leaves),
    )
    return encoder, layout, leaves


def overwritten(
    arena: values.Arena, encoder: values.Encoder, data: Any, private: Collection[int]
) -> list[list[int]]:
    """Write noise over some tensors of an input, given by their numbers in its tree; return offsets and sizes."""
    given = enumerate(aliasing.leaves(data))
    begins = {aliasing.ADDRESS(leaf) for number, leaf in given if number in private and leaf.numel()}
    entries = [each for each in encoder.tensors if aliasing.ADDRESS(each.value) in begins]
    for entry in entries:
        arena.bytes[entry.offset : entry.offset + entry.nbytes].fill_(NOISE)
    return [[entry.offset, entry.nbytes] for entry in entries]


def read_reply(frame: dict[str, Any], *, profile: bool) -> Done | Profiled | Failed:
    """Return the reply to a call, read after the clock. Raise ``BrokenProtocol``."""
    if frame.get("type") == Failed.type:
        return unpack(Failed, frame)
    if profile and frame.get("type") == Profiled.type:
        return unpack(Profiled, frame)
    return unpack(Done, frame)
