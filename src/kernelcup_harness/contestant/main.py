"""The untrusted process: imports the submission, calls it, and reports how long each call took.

It holds no seed, no expected output, no checker and no verdict. Everything that it sends is a claim.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelcup_harness.profile.port import Inside, Marks
from kernelcup_harness.profile.torch_trace import TorchTrace
from kernelcup_harness.protocol.source import PACKAGE
from kernelcup_harness.protocol.variables import MARKS_CALLS, PER_THREAD
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.port import FunctionFailed, NotCompiled, expect
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import (
    ArenaName,
    CasePrepared,
    Done,
    Failed,
    FailureKind,
    Forget,
    Forgotten,
    Give,
    Given,
    Go,
    Hello,
    Load,
    Message,
    Prepare,
    Ready,
    Returned,
    Take,
    UseNoop,
    failed,
    pack,
    unpack_any,
)

if TYPE_CHECKING:
    from kernelcup_harness.contestant import inputs, window_calls
    from kernelcup_harness.wire import values

MAX_TEXT = 8 << 10
# Exceptions of compilers that run at the first call: the harness does not import their packages.
BUILD_ERRORS = frozenset(
    {"CompilationError", "CompileTimeAssertionFailure", "CompileException", "NVRTCError", "PTXASError"}
)


class Contestant:
    """Answers the judge's messages until the judge is gone."""

    _preparing: Callable[..., Any] | None = None
    """The submission's `prepare`, if it has one."""

    def __init__(self, channel: Channel, hands: window_calls.Hands | None = None) -> None:
        import torch

        from kernelcup_harness.contestant import inputs
        from kernelcup_harness.device.nvidia import graphs
        from kernelcup_harness.submission import forms
        from kernelcup_harness.wire import devices, values

        self._wire, self._channel = values, channel
        self._out_of_memory = torch.OutOfMemoryError
        self._empty_cache = torch.cuda.empty_cache
        self._outputs: values.Arena | None = None
        self._kernel: Callable[[Any], Any] | None = None
        self._expect: Callable[[Any], None] = partial(expect, None)
        self._profiler: Inside = Marks() if os.environ.get(MARKS_CALLS) else TorchTrace()
        self._gpu = devices.on_gpu()
        if self._gpu and os.environ.get(PER_THREAD):
            graphs.use_per_thread_stream()
        channel.busy_s = devices.busy_s()
        # Looked up before the submission is imported, which may replace it.
        self._settle: Callable[[], None] = torch.cuda.synchronize if self._gpu else forms.nothing
        self._slot_type = inputs.Slot
        self._slots: dict[int, inputs.Slot] = {}
        self._waiting: Any = None
        """The input, the answer and the time of the call whose answer waits for ``take``."""
        self._noop = forms.Noop
        self._answers: dict[type[Message], Callable[[Any], Message]] = {
            Load: self._load,
            Prepare: self._prepare,
            Give: self._give,
            Go: self._go,
            Take: self._take,
            UseNoop: self._use_noop,
            Forget: self._forget,
        }
        self._room: window_calls.Room | None = None
        if hands is not None:
            from kernelcup_harness.contestant import window_calls

            self._room = window_calls.Room(hands, channel.take_fds, self._settle)
            self._answers |= self._room.answers

    def serve(self) -> None:
        """Say hello, then answer one message after the other. Raise ``ChannelClosed`` at the end."""
        self._channel.send(pack(Hello()))
        kinds = tuple(self._answers)
        while True:
            frame = self._channel.receive()
            message = unpack_any(kinds, frame)
            # The one place where everything is caught: whatever user code raises is the answer.
            try:
                reply = self._answers[type(message)](message)
            except BaseException as error:
                reply = self._failure(error, loading=isinstance(message, Load))
            self._channel.send({"id": frame.get("id"), **pack(reply)})

    def _load(self, message: Load) -> Message:
        language, file = languages.of(message.file), Path(message.file)
        with self._in_use():
            kernel = language.load(file)
            self._preparing = language.preparing(file)
        self._use(kernel)
        self._settle()
        # Imported objects stay alive: the garbage collector need not scan them repeatedly.
        gc.freeze()
        return Ready()

    def _prepare(self, message: Prepare) -> Message:
        """Have the submission prepare for a case. What it allocates has to lie where a replayed call can read it."""
        if self._preparing is not None:
            with self._in_use():
                self._preparing(**message.parameters)
            self._settle()
        return CasePrepared(called=self._preparing is not None)

    def _in_use(self) -> AbstractContextManager[None]:
        """Allocate tensors in the window, if there is one."""
        return self._room.in_use() if self._room is not None else contextlib.nullcontext()

    def _use(self, kernel: Callable[[Any], Any]) -> None:
        self._expect = partial(expect, kernel)
        self._kernel = kernel if self._room is None else self._room.kept(kernel)

    def _use_noop(self, message: UseNoop) -> Message:
        """Answer calls without computing anything, until a submission is loaded."""
        noop = self._noop()
        with self._in_use():
            noop.prepare(message.tree, message.table)
        self._use(noop)
        return Ready()

    def _forget(self, _message: Forget) -> Message:
        """Free all memory of inputs and answers."""
        self._settle()
        for slot in self._slots.values():
            # Memory that is freed while registered with the driver corrupts the mapping that takes its place.
            slot.close()
        self._slots.clear()
        if isinstance(self._kernel, self._noop):
            self._kernel = None
        if self._gpu:
            self._empty_cache()
        return Forgotten()

    def _give(self, message: Give) -> Message:
        """Prepare the tensors of an input, which the judge writes later."""
        slot = self._slots.setdefault(message.slot, self._slot_type(gpu=self._gpu))
        self._adopt_arenas(message.arenas, slot)
        slot.describe(message.layout)
        self._expect(message.layout.answer)
        slot.touch()
        self._settle()
        return Given()

    def _go(self, message: Go) -> Message:
        """Make one call. Its input is there from here on."""
        assert self._kernel is not None
        slot = self._slots[message.slot]
        slot.fill()
        slot.complete(message.leaves)
        self._settle()
        if message.profile:
            kernel, data = self._kernel, slot.data
            return self._profiler.inside(lambda: kernel(data), self._settle)
        began = time.perf_counter_ns()
        answer = self._called(slot)
        self._settle()
        ns = float(max(1, time.perf_counter_ns() - began))
        if not message.held:
            return self._handed_over(answer, ns)
        self._waiting = slot, answer, ns
        return Returned()

    def _take(self, message: Take) -> Message:
        """Hand over the answer of the last call."""
        (slot, answer, ns), self._waiting = self._waiting, None
        for offset, nbytes in message.parts:
            slot.fill(offset, nbytes)
        self._settle()
        return self._handed_over(answer, ns)

    def _handed_over(self, answer: Any, ns: float) -> Message:
        try:
            tree, table = self._write(answer)
        except self._wire.CannotCarry as error:
            return failed(FailureKind.OUTPUT, str(error))
        except self._wire.TooLarge as error:
            return failed(FailureKind.TOO_LARGE, f"the call returned {error}")
        return Done(ns=ns, tree=tree, table=table)

    def _called(self, slot: inputs.Slot) -> Any:
        """Return an answer laid out densely: what was returned, or the input of a task that works in place.

        The clock includes the layout: a lazy transposition or conjugate would leave work undone.
        """
        assert self._kernel is not None
        value = self._kernel(slot.data)
        return self._wire.contiguous(slot.data if slot.in_place else value)

    def _adopt_arenas(self, names: list[ArenaName], slot: Any) -> None:
        if not names:
            return
        for name, fd in zip(names, self._channel.take_fds(), strict=True):
            arena = self._wire.Arena.adopt(fd)
            if name is ArenaName.INPUTS:
                old, slot.arena = slot.arena, arena
            else:
                old, self._outputs = self._outputs, arena
            if old is not None:
                old.close()

    def _write(self, value: Any) -> tuple[Any, Any]:
        """Write an answer into shared memory; return its tree and table. Raise ``CannotCarry`` or ``TooLarge``."""
        assert self._outputs is not None
        encoder = self._wire.Encoder(guarded=True)
        tree = encoder.tree(value, "output")
        self._outputs.pin(encoder.nbytes)
        encoder.write(self._outputs)
        return tree, encoder.table()

    def _failure(self, error: BaseException, *, loading: bool) -> Failed:
        text = describe(error)
        return failed(self._kind_of(error, text, loading=loading), text)

    def _kind_of(self, error: BaseException, text: str, *, loading: bool) -> FailureKind:
        if isinstance(error, self._out_of_memory):
            return FailureKind.MEMORY
        if isinstance(error, MemoryError) or "can't allocate memory" in text:
            return FailureKind.HOST_MEMORY
        if isinstance(error, NotCompiled) or (isinstance(error, SyntaxError) and loading):
            return FailureKind.COMPILE
        if is_of_compiler(type(error)) or "Error building extension" in text:
            return FailureKind.COMPILE
        if isinstance(error, ImportError) and "inline CUDA" in text:
            return FailureKind.COMPILE
        return FailureKind.IMPORT if loading else FailureKind.EXCEPTION


def is_of_compiler(kind: type) -> bool:
    """Return whether an exception is a compiler's own, and not of a class that a submission named like one."""
    module = sys.modules.get(kind.__module__)
    if kind.__name__ not in BUILD_ERRORS or getattr(module, kind.__name__, None) is not kind:
        return False
    return not Path(getattr(module, "__file__", None) or ".").absolute().is_relative_to(Path.cwd())


def describe(error: BaseException) -> str:
    """Return the traceback without the frames of the harness, at most 8 KiB of it."""
    if isinstance(error, (NotCompiled, FunctionFailed)):
        return cut(str(error))
    own = str(PACKAGE)
    # Formatting runs user code (``__str__``), which may fail or exit in turn.
    try:
        chain = traceback.TracebackException.from_exception(error)
        strip_frames(chain, own)
        text = "".join(chain.format())
    except BaseException:
        text = f"{type(error).__name__} (its text cannot be shown)"
    text = text.replace(os.getcwd() + os.sep, "")
    return cut(text)


def cut(text: str) -> str:
    """Return beginning and end of a text, at most 8 KiB."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT // 2] + "\n[...]\n" + text[-MAX_TEXT // 2 :]


def strip_frames(chain: traceback.TracebackException | None, folder: str) -> None:
    """Remove the frames that lie in ``folder`` from a traceback and its causes."""
    while chain is not None:
        hidden = (folder, "<frozen importlib")
        chain.stack = traceback.StackSummary.from_list(
            [frame for frame in chain.stack if not frame.filename.startswith(hidden)]
        )
        chain = chain.__cause__ or chain.__context__
