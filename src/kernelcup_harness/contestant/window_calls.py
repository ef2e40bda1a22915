"""The contestant's part of the clean room: allocates in the window, captures its calls, and exports them as data.

Its replies are claims, like everything that a contestant sends. The reason why calls were not captured is a name of
:class:`WhyNot`: text of the submission's own could leak hidden inputs.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch

from kernelcup_harness.submission.port import expect
from kernelcup_harness.window import messages
from kernelcup_harness.window.addresses import WINDOW_BYTES
from kernelcup_harness.window.layout import WindowMemory
from kernelcup_harness.window.messages import (
    Attach,
    Attached,
    Captured,
    CapturePlaces,
    Export,
    Exported,
    InputLaid,
    LayInput,
)
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire import decode
from kernelcup_harness.wire import values as wire
from kernelcup_harness.wire.messages import FailureKind, Message, failed

CALLS = 3
"""Calls at each place: two to warm up and one that is captured."""
Call = Callable[[], Any]
NEXT_TO = 4 << 10
"""Bytes between two stretches of memory that are reported as one."""


class Hands(Protocol):
    """Captures calls: a device, or its stand-in in tests."""

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Return memory of the window as a tensor of uint8 with shape (nbytes,)."""

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        """Map a region of the window. Raise :class:`NotReplayed`."""

    def use_heap(self, address: int, nbytes: int) -> None:
        """Make PyTorch allocate from these addresses within :meth:`in_use`."""

    def in_use(self) -> Any:
        """Return a context in which tensors are allocated in the window."""

    def is_capturing(self) -> bool:
        """Return whether the current stream is being captured."""

    def capture(self, calls: Sequence[Call]) -> list[Any]:
        """Warm up calls and capture each; return their answers. Raise :class:`NotReplayed`."""

    def live(self) -> tuple[list[list[int]], int]:
        """Return address and size of each stretch of the heap in which tensors are in use.

        Beside them, the bytes of the heap up to the end of what was ever in use.
        """

    def export(self) -> tuple[bytes, WhyNot | None]:
        """Return all captured graphs as data, and the likely reason if their replay fails.

        Raise :class:`NotReplayed`.
        """


class Room:
    """Answers the judge's messages about the window.

    Args:
        hands: Captures calls.
        take_fds: Returns the descriptors that came with a message.
        settle: Waits for the device.
    """

    def __init__(self, hands: Hands, take_fds: Callable[[], list[int]], settle: Callable[[], None]) -> None:
        self._hands = hands
        self._take_fds = take_fds
        self._settle = settle
        self._kernel: Callable[[Any], Any] | None = None
        self._kept: Callable[[Any], Any] | None = None
        self._has_heap = False
        self._device: torch.device | None = None
        """The device that the window's memory is on."""
        self._shared: list[range] = []
        """The addresses of the window that the judge can read."""
        self._laid: tuple[Any, bool] | None = None
        self.answers: dict[type[Message], Callable[[Any], Message]] = {
            Attach: self._attach,
            LayInput: self._lay_input,
            messages.Call: self._call_laid,
            CapturePlaces: self._capture,
            Export: self._export,
        }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Allocate tensors in the window, once it has a heap."""
        with self._hands.in_use() if self._has_heap else nullcontext():
            yield

    def kept(self, kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a kernel whose calls allocate in the window, even those that are not captured.

        Tensors that a call keeps for later ones, for example constants made by the first call, have to lie there.
        """
        self._kernel = kernel

        def call(data: Any) -> Any:
            if not self._has_heap or self._hands.is_capturing():
                return kernel(data)
            try:
                with self._hands.in_use():
                    return kernel(data)
            except torch.OutOfMemoryError:
                # The window may be full although the device is not; this call will not be captured later.
                return kernel(data)

        self._kept = call
        return call

    def _attach(self, message: Attach) -> Attached:
        """Map regions; tensors are allocated in the region marked ``heap`` from now on."""
        fds = self._take_fds()
        try:
            for fd, each in zip(fds, message.regions, strict=True):
                self._hands.attach(fd, each.address, each.bytes)
                self._shared.append(range(each.address, each.address + each.bytes))
                if each.heap:
                    self._hands.use_heap(each.address, each.bytes)
                    self._has_heap = True
                    self._device = self._hands.view(each.address, 1).device
        except NotReplayed as reason:
            return Attached(why=reason.reason)
        finally:
            for fd in fds:
                os.close(fd)
        return Attached()

    def _lay_input(self, message: LayInput) -> InputLaid:
        """Make the tensors of an input, which the judge writes later."""
        self._laid = self._input(message.tree, message.table), message.in_place
        expect(self._kernel, message.answer)
        return InputLaid()

    def _call_laid(self, _message: messages.Call) -> Message:
        """Make a call with the input that is laid, and describe where its answer is."""
        assert self._laid is not None
        assert self._kept is not None
        (data, in_place), self._laid = self._laid, None
        began = time.perf_counter_ns()
        value = self._kept(data)
        answer = wire.contiguous(data if in_place else value)
        self._settle()
        ns = float(max(1, time.perf_counter_ns() - began))
        try:
            return messages.Called(ns=ns, answer=description(self._where_it_is_read(answer)))
        except wire.CannotCarry as error:
            return failed(FailureKind.OUTPUT, str(error))

    def _where_it_is_read(self, answer: Any) -> Any:
        """Return an answer whose tensors on the device lie in the window: others, of other allocators, are copied."""
        copied = []

        def inside(tensor: torch.Tensor) -> torch.Tensor:
            begin = tensor.data_ptr()
            end = begin + tensor.numel() * tensor.element_size()
            if tensor.device != self._device or any(
                begin in span and end <= span.stop for span in self._shared
            ):
                return tensor
            copied.append(True)
            with self._hands.in_use():
                return tensor.clone()

        found = wire.with_tensors(answer, inside)
        if copied:
            self._settle()
        return found

    def _capture(self, message: CapturePlaces) -> Captured:
        """Capture a call at each place, and describe where its answer will be."""
        assert self._kernel is not None
        if not self._has_heap:
            return Captured(why=WhyNot.NO_WINDOW, answers=[])
        expect(self._kernel, message.answer)
        calls = [self._call(self._kernel, message, table) for table in message.tables]
        try:
            values = self._hands.capture(calls)
            return Captured(answers=[description(value) for value in values])
        except NotReplayed as reason:
            return Captured(why=reason.reason, answers=[])
        except wire.CannotCarry:
            return Captured(why=WhyNot.HOST_OUTPUT, answers=[])

    def _call(self, kernel: Callable[[Any], Any], message: CapturePlaces, table: Any) -> Call:
        # New tensors over the same memory for each call, without anything that an earlier call attached to them.
        # They are made beforehand: viewing an address queries the driver, which may break a capture.
        inputs = [self._input(message.tree, table) for _ in range(CALLS)]

        def call() -> Any:
            data = inputs.pop() if len(inputs) > 1 else inputs[0]
            value = kernel(data)
            # The dense layout is part of the call: otherwise the work would be deferred.
            return wire.contiguous(data if message.in_place else value)

        return call

    def _input(self, tree: Any, table: Any) -> Any:
        memory = WindowMemory(self._hands.view, WINDOW_BYTES)
        return decode.Decoder(memory, table, decode.importing_record_type, dense=False).value(tree)

    def _live(self) -> tuple[list[list[int]] | None, int]:
        try:
            live, reach = self._hands.live()
            return joined(live), reach
        except Exception:
            # Without the allocator's account the binary is not kept, and nothing else is lost.
            traceback.print_exc()
            return None, 0

    def _export(self, _message: Export) -> Exported:
        """Write all captured graphs into the judge's memory."""
        (fd,) = self._take_fds()
        arena = wire.Arena.adopt(fd)
        try:
            data, suspect = self._hands.export()
            if len(data) > arena.size:
                return Exported(why=WhyNot.MEMORY, bytes=0)
            arena.memory[: len(data)] = data
            live, reach = self._live()
        except NotReplayed as reason:
            return Exported(why=reason.reason, bytes=0)
        except Exception:
            # No code of the submission runs here: the traceback is the harness's own, and goes to standard error.
            traceback.print_exc()
            return Exported(why=WhyNot.UNKNOWN, bytes=0)
        finally:
            arena.close()
        return Exported(why=suspect, bytes=len(data), live=live, reach=reach)


def joined(spans: list[list[int]]) -> list[list[int]]:
    """Return stretches of memory, those next to each other joined; all as one if they are still too many."""
    found: list[list[int]] = []
    for address, nbytes in sorted(spans):
        if found and address - sum(found[-1]) <= NEXT_TO:
            found[-1][1] = max(found[-1][1], address + nbytes - found[-1][0])
        else:
            found.append([address, nbytes])
    return found if len(found) <= messages.MOST_LIVE else [[found[0][0], sum(found[-1]) - found[0][0]]]


def description(value: Any) -> dict[str, Any]:
    """Return tree and table of an answer, with the address of each tensor. Raise ``CannotCarry``."""
    encoder = wire.Encoder(guarded=True)
    tree = encoder.tree(value, "output")
    table = [
        {**each, "address": entry.value.data_ptr() if entry.nbytes else 0}
        for each, entry in zip(encoder.table(), encoder.tensors, strict=True)
    ]
    return {"tree": tree, "table": table}
