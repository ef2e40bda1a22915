"""Calls a compiled submission on torch's stream, with memory of torch's: it is captured and replayed like others."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path
from typing import Any

import torch

from kernelcup_harness.submission import forms
from kernelcup_harness.submission.cuda import arguments
from kernelcup_harness.submission.cuda.arguments import HOST, Arguments, Context
from kernelcup_harness.submission.port import FunctionFailed, NotCompiled, WantsForm
from kernelcup_harness.wire import devices

FUNCTION = "kc_call_custom_kernel"
"""The header's own: it turns exceptions and failed launches into failures."""
LINE_BUFFERED = 1


class CompiledKernel(WantsForm):
    """The ``custom_kernel`` of a compiled submission.

    Args:
        path: The library. Its static constructors run at once.
    """

    def __init__(self, path: Path) -> None:
        print_lines_at_once()
        try:
            self._call = ctypes.CDLL(str(path))[FUNCTION]
        except (OSError, AttributeError) as error:
            raise NotCompiled(f"the compiled library cannot be loaded: {error}") from error
        self._call.restype = ctypes.c_int
        self._call.argtypes = [ctypes.POINTER(arguments.Args)] * 2 + [ctypes.POINTER(Context)]
        self._gpu = devices.on_gpu()
        self._described: Any = None
        self._form: Any = None
        self._in_place = False
        self._scratch: list[torch.Tensor] = []
        self._lacked: BaseException | None = None
        self._allocate = arguments.SCRATCH(self._allocated)

    def expect(self, form: Any) -> None:
        """Note the form of the next answers."""
        if form == self._described:
            return
        self._described = form
        self._in_place = form is not None and form["in_place"]
        self._form = None if form is None else forms.decoded(form["tree"], form["table"])

    def __call__(self, data: Any) -> Any:
        """Call it; return its answer, None if it was written into the input. Raise :class:`FunctionFailed`."""
        if self._described is None:
            raise FunctionFailed(
                "this leaderboard has no ref_kernel, so the form of its answers is not known before a call: "
                "it takes Python only"
            )
        inputs = Arguments(data, gpu=self._gpu)
        outputs = Arguments(None if self._in_place else forms.fresh(self._form), gpu=self._gpu)
        if self._in_place:
            outputs.args.scalar_count = 0
        context = Context(device=HOST, scratch=self._allocate)
        if self._gpu:
            context.stream = torch.cuda.current_stream().cuda_stream
            context.device = torch.cuda.current_device()
        try:
            code = self._call(inputs.args, outputs.args, context)
        finally:
            # The allocator reuses it in the order of the stream: kernels that still run are not disturbed.
            self._scratch.clear()
        self._check(code, context)
        return None if self._in_place else outputs.value()

    def _check(self, code: int, context: Context) -> None:
        lacked, self._lacked = self._lacked, None
        if lacked is not None:
            raise lacked
        if code or context.failed:
            text = context.message.decode("utf-8", "replace")
            raise FunctionFailed(f"custom_kernel: {text}" if text else f"custom_kernel returned {code}")

    def _allocated(self, _context: Any, nbytes: int) -> int | None:
        """Return memory for the call in progress, None without any. Called from C: nothing may be raised here."""
        try:
            device = "cuda" if self._gpu else "cpu"
            memory = torch.empty(max(1, nbytes), dtype=torch.uint8, device=device)
        except BaseException as error:
            self._lacked = error
            return None
        self._scratch.append(memory)
        return int(memory.data_ptr())


def print_lines_at_once() -> None:
    """Have C print each line when it ends: the process is killed in the end, with what it has not printed."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINE_BUFFERED, 0)
