"""The contestant's part of the clean room: its memory in the window, its calls captured, and all that as data.

What is said here is a claim like everything that a contestant says. Why something was not captured is a name of
:class:`WhyNot`: a text of the submission's own could tell hidden inputs.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch

from kernelcup_harness import wire
from kernelcup_harness.replay.layout import WindowMemory
from kernelcup_harness.replay.reasons import NotReplayed, WhyNot
from kernelcup_harness.replay.window import WINDOW_BYTES

CALLS = 3
"""At each place: two to warm up, and the one that is captured."""
Call = Callable[[], Any]


class Hands(Protocol):
    """What a contestant captures with: a device, or what stands for one in tests."""

    def view(self, address: int, nbytes: int) -> torch.Tensor:
        """Look at addresses of the window."""

    def attach(self, fd: int, address: int, nbytes: int) -> None:
        """Map a region of the window. Raise :class:`NotReplayed`."""

    def use_heap(self, address: int, nbytes: int) -> None:
        """Have PyTorch take memory from these addresses within :meth:`in_use`."""

    def in_use(self) -> Any:
        """Return a context in which tensors lie in the window."""

    def is_capturing(self) -> bool:
        """Tell whether the current stream is being captured."""

    def capture(self, calls: Sequence[Call]) -> list[Any]:
        """Warm calls up and capture each; return what each has answered. Raise :class:`NotReplayed`."""

    def export(self) -> bytes:
        """Return all that was captured as data. Raise :class:`NotReplayed`."""


class Room:
    """Answers the judge's frames about the window.

    Args:
        hands: What captures.
        take_fds: Returns the descriptors that came with a frame.
    """

    def __init__(self, hands: Hands, take_fds: Callable[[], list[int]]) -> None:
        self._hands = hands
        self._take_fds = take_fds
        self._kernel: Callable[[Any], Any] | None = None
        self._has_heap = False
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "window": self._window,
            "capture_places": self._capture,
            "export": self._export,
        }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have tensors lie in the window, once it has a heap."""
        with self._hands.in_use() if self._has_heap else nullcontext():
            yield

    def kept(self, kernel: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a kernel whose calls take memory from the window, also those that are not captured.

        What a call keeps for later ones, such as constants that the first one makes, has to lie there.
        """
        self._kernel = kernel

        def call(data: Any) -> Any:
            if not self._has_heap or self._hands.is_capturing():
                return kernel(data)
            try:
                with self._hands.in_use():
                    return kernel(data)
            except torch.OutOfMemoryError:
                # The window may be full where the device is not; such a call is not captured later.
                return kernel(data)

        return call

    def _window(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Map regions; the one that is named ``heap`` is where tensors lie from now on."""
        fds = self._take_fds()
        try:
            for fd, each in zip(fds, frame["regions"], strict=True):
                self._hands.attach(fd, each["address"], each["bytes"])
                if each.get("heap"):
                    self._hands.use_heap(each["address"], each["bytes"])
                    self._has_heap = True
        except NotReplayed as reason:
            return {"type": "attached", "why": reason.reason.value}
        finally:
            for fd in fds:
                os.close(fd)
        return {"type": "attached", "why": ""}

    def _capture(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Capture a call at each place, and say where its answer will be."""
        assert self._kernel is not None
        if not self._has_heap:
            return {"type": "captured", "why": WhyNot.NO_WINDOW.value}
        calls = [self._call(self._kernel, frame, table) for table in frame["tables"]]
        try:
            values = self._hands.capture(calls)
            return {"type": "captured", "why": "", "answers": [description(value) for value in values]}
        except NotReplayed as reason:
            return {"type": "captured", "why": reason.reason.value}
        except wire.CannotCarry:
            return {"type": "captured", "why": WhyNot.HOST_OUTPUT.value}

    def _call(self, kernel: Callable[[Any], Any], frame: dict[str, Any], table: Any) -> Call:
        # New tensors over the same memory for each call, with nothing that an earlier one has attached to them. Made
        # before: looking at an address asks the driver, which a capture may not like.
        inputs = [self._input(frame["tree"], table) for _ in range(CALLS)]

        def call() -> Any:
            data = inputs.pop() if len(inputs) > 1 else inputs[0]
            value = kernel(data)
            answer = data if value is None and frame["in_place"] else value
            # Laying it out densely is a part of the call: else the work would only be noted down.
            return wire.contiguous(answer)

        return call

    def _input(self, tree: Any, table: Any) -> Any:
        memory = WindowMemory(self._hands.view, WINDOW_BYTES)
        return wire.Decoder(memory, table, wire.importing_record_type, dense=False).value(tree)

    def _export(self, _frame: dict[str, Any]) -> dict[str, Any]:
        """Write all that was captured into the judge's memory."""
        (fd,) = self._take_fds()
        arena = wire.Arena.adopt(fd)
        try:
            data = self._hands.export()
            if len(data) > arena.size:
                return {"type": "exported", "why": WhyNot.MEMORY.value, "bytes": 0}
            arena.memory[: len(data)] = data
        except NotReplayed as reason:
            return {"type": "exported", "why": reason.reason.value, "bytes": 0}
        except Exception:
            # Nothing of the submission is called here: the trace is ours, and goes where it prints.
            traceback.print_exc()
            return {"type": "exported", "why": WhyNot.UNKNOWN.value, "bytes": 0}
        finally:
            arena.close()
        return {"type": "exported", "why": "", "bytes": len(data)}


def description(value: Any) -> dict[str, Any]:
    """Return tree and table of an answer, with the address of each tensor. Raise ``CannotCarry``."""
    encoder = wire.Encoder(guarded=True)
    tree = encoder.tree(value, "output")
    table = [
        {**each, "address": entry.value.data_ptr() if entry.nbytes else 0}
        for each, entry in zip(encoder.table(), encoder.tensors, strict=True)
    ]
    return {"tree": tree, "table": table}


def of_error(error: BaseException) -> WhyNot:
    """Return why a call could not be captured, by what the driver, PyTorch or CuPy said."""
    from kernelcup_harness import graphs
    from kernelcup_harness.protocol import NotCaptured

    if isinstance(error, torch.OutOfMemoryError):
        return WhyNot.MEMORY
    return {
        NotCaptured.WAITS: WhyNot.WAITS,
        NotCaptured.ELSEWHERE: WhyNot.OTHER_STREAM,
        NotCaptured.HOST_FUNCTION: WhyNot.HOST_FUNCTION,
        NotCaptured.RUNTIME: WhyNot.RUNTIME,
    }.get(graphs.reason_of(error), WhyNot.UNKNOWN)


RANDOM_KERNELS = ("philox", "distribution_", "dropout", "curand")
"""Parts of the names of kernels that draw random numbers."""
SAYINGS = {
    "a host function": WhyNot.HOST_FUNCTION,
    "the host's memory": WhyNot.HOST_COPY,
    "a memory allocation": WhyNot.ALLOCATES,
    "a memory release": WhyNot.ALLOCATES,
    "too large to be replayed": WhyNot.MEMORY,
    "was not seen when it was loaded": WhyNot.UNSEEN_CODE,
    "cannot be replayed": WhyNot.NODE,
    "cannot be read": WhyNot.NODE,
}
"""Parts of what :class:`NotExported` says; the first that fits counts."""


def of_export(text: str) -> WhyNot:
    """Return why a captured call could not be exported, by what the exporter said."""
    return next((reason for part, reason in SAYINGS.items() if part in text), WhyNot.UNKNOWN)


def of_foreign(kernels: Sequence[str]) -> WhyNot:
    """Return whose memory it is that these kernels are called with and the timer will not have."""
    if any(part in name.lower() for name in kernels for part in RANDOM_KERNELS):
        return WhyNot.RANDOM
    return WhyNot.OWN_ALLOCATOR if "cupy" in sys.modules else WhyNot.FOREIGN_POINTER
