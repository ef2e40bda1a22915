"""The untrusted process: imports the submission, calls it, and says how long each call took.

It holds no seed, no expected output, no checker and no verdict. All that it says is a claim.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelcup_harness import processes
from kernelcup_harness.frames import Channel, ChannelClosed

MAX_FRAME = 16 << 20
MAX_TEXT = 8 << 10
MAX_TRACE = 4 << 20
NOTHING_SHARED: dict[str, Any] = {"shared": [], "repeated": []}
# Exceptions of compilers that work at the first call, by class name: they live in packages that the
# harness does not import.
BUILD_ERRORS = frozenset(
    {"CompilationError", "CompileTimeAssertionFailure", "CompileException", "NVRTCError", "PTXASError"}
)


def main(channel_fd: str, parent: str, memory_bytes: str) -> None:
    """Serve one job over the socket ``channel_fd``; the working folder holds the submission."""
    processes.die_with_parent(int(parent))
    processes.limit_resources(int(memory_bytes) or None)
    channel = Channel.from_fd(int(channel_fd), max_bytes=MAX_FRAME)
    sys.path.insert(0, os.getcwd())
    if os.environ.get("KERNELCUP_EMULATED") == "1":
        from kernelcup_harness import emulation

        emulation.install()
    # Without a channel there is nobody to tell anything, and no exit handler of the submission is due.
    try:
        Contestant(channel).serve()
    except ChannelClosed:
        os._exit(processes.CHANNEL_LOST)


class Contestant:
    """Answers the judge's frames until it says goodbye."""

    def __init__(self, channel: Channel) -> None:
        import torch

        from kernelcup_harness import aliasing, timing, wire

        self._wire = wire
        self._aliasing = aliasing
        self._channel = channel
        self._out_of_memory = torch.OutOfMemoryError
        self._inputs: wire.Arena | None = None
        self._outputs: wire.Arena | None = None
        self._kernel: Callable[[Any], Any] | None = None
        real_gpu = torch.cuda.is_available() and os.environ.get("KERNELCUP_BACKEND") == "cuda"
        self._clock: timing.Clock = timing.CudaClock() if real_gpu else timing.HostClock()

    def serve(self) -> None:
        """Say hello, then answer one frame after the other."""
        self._channel.send({"type": "hello"})
        while True:
            frame = self._channel.receive()
            if frame["type"] == "bye":
                return
            answer = {"load": self._load, "call": self._call}[frame["type"]]
            # The one place where everything is caught: whatever user code raises is the answer.
            try:
                reply = answer(frame)
            except BaseException as error:
                reply = self._failure(error, stage=frame["type"])
            self._channel.send({"id": frame.get("id"), **reply})

    def _load(self, frame: dict[str, Any]) -> dict[str, Any]:
        module = import_file(Path(frame["file"]))
        kernel = getattr(module, "custom_kernel", None)
        if not callable(kernel):
            return {
                "type": "fail",
                "kind": "compile",
                "text": f"{frame['file']} defines no function custom_kernel",
            }
        self._kernel = kernel
        self._clock.settle()
        return {"type": "ready"}

    def _call(self, frame: dict[str, Any]) -> dict[str, Any]:
        self._adopt_arenas(frame)
        assert self._kernel is not None
        assert self._inputs is not None
        kernel, wire = self._kernel, self._wire
        decoder = wire.Decoder(self._inputs, frame["table"], wire.importing_record_type, dense=False)
        data = decoder.value(frame["tree"])
        self._clock.settle()
        if frame["profile"]:
            return {"type": "profile", **profile(lambda: kernel(data), self._clock.settle)}
        (value, laid), ticks_ns = self._clock.time(lambda: self._called(kernel, data))
        if value is None and frame["in_place"]:
            return {"type": "done", "ns": ticks_ns, **self._write(wire.contiguous(data)), **NOTHING_SHARED}
        return {"type": "done", "ns": ticks_ns, **self._write(laid), **self._sharing(value, decoder.tensors)}

    def _called(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, Any]:
        """Return an answer as it came and as it is laid out.

        While the clock runs: a transposition or a conjugate that is only noted down is work left over.
        """
        value = kernel(data)
        return value, self._wire.contiguous(value)

    def _sharing(self, value: Any, inputs: list[Any]) -> dict[str, Any]:
        """Say which tensors of an answer share memory, with the inputs and with each other."""
        outputs = self._aliasing.leaves(value)
        return {
            "shared": self._aliasing.shared(outputs, inputs),
            "repeated": self._aliasing.repeated(outputs),
        }

    def _adopt_arenas(self, frame: dict[str, Any]) -> None:
        fds = self._channel.take_fds()
        for name, fd in zip(frame["arenas"], fds, strict=True):
            arena = self._wire.Arena.adopt(fd)
            old = self._inputs if name == "inputs" else self._outputs
            if old is not None:
                old.close()
            if name == "inputs":
                self._inputs = arena
            else:
                self._outputs = arena

    def _write(self, value: Any) -> dict[str, Any]:
        assert self._outputs is not None
        encoder = self._wire.Encoder(guarded=True)
        try:
            tree = encoder.tree(value, "output")
            encoder.write(self._outputs)
        except self._wire.CannotCarry as error:
            return {"type": "fail", "kind": "output", "text": str(error)}
        except self._wire.TooLarge as error:
            return {"type": "fail", "kind": "too_large", "text": f"the call returned {error}"}
        return {"tree": tree, "table": encoder.table()}

    def _failure(self, error: BaseException, *, stage: str) -> dict[str, Any]:
        text = describe(error)
        return {"type": "fail", "kind": self._kind_of(error, text, stage), "text": text}

    def _kind_of(self, error: BaseException, text: str, stage: str) -> str:
        if isinstance(error, self._out_of_memory):
            return "memory"
        if isinstance(error, MemoryError) or "can't allocate memory" in text:
            return "host_memory"
        if isinstance(error, SyntaxError) and stage == "load":
            return "compile"
        if type(error).__name__ in BUILD_ERRORS or "Error building extension" in text:
            return "compile"
        if isinstance(error, ImportError) and "inline CUDA" in text:
            return "compile"
        return "import" if stage == "load" else "exception"


def import_file(path: Path) -> ModuleType:
    """Import a file as the module of its name, as ``import`` would."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def describe(error: BaseException) -> str:
    """Return the traceback without the frames of the harness, at most 8 KiB of it."""
    own = str(Path(__file__).parent)
    # Formatting runs user code (``__str__``), which may fail or exit in turn.
    try:
        chain = traceback.TracebackException.from_exception(error)
        strip_frames(chain, own)
        text = "".join(chain.format())
    except BaseException:
        text = f"{type(error).__name__} (its text cannot be shown)"
    text = text.replace(os.getcwd() + os.sep, "")
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT // 2] + "\n[...]\n" + text[-MAX_TEXT // 2 :]


def strip_frames(chain: traceback.TracebackException | None, folder: str) -> None:
    """Remove the frames that lie in ``folder`` from a traceback and its causes."""
    while chain is not None:
        hidden = (folder, "<frozen importlib")
        chain.stack = traceback.StackSummary.from_list(
            [frame for frame in chain.stack if not frame.filename.startswith(hidden)]
        )
        chain = chain.__cause__ or chain.__context__


def profile(call: Callable[[], Any], settle: Callable[[], None]) -> dict[str, Any]:
    """Run ``call`` once to warm up and once under torch.profiler; return its table and trace."""
    import torch
    from torch.profiler import ProfilerActivity

    activities = [ProfilerActivity.CPU]
    real_gpu = os.environ.get("KERNELCUP_BACKEND") == "cuda"
    if real_gpu:
        activities.append(ProfilerActivity.CUDA)
    call()
    settle()
    with torch.profiler.profile(activities=activities, record_shapes=True) as recorded:
        call()
        settle()
    order = "self_cuda_time_total" if real_gpu else "self_cpu_time_total"
    table = recorded.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=70)
    trace = Path(os.environ["TMPDIR"], "trace.json")
    recorded.export_chrome_trace(str(trace))
    packed = gzip.compress(trace.read_bytes(), mtime=0)
    with contextlib.suppress(OSError):
        trace.unlink()
    encoded = base64.b64encode(packed).decode() if len(packed) <= MAX_TRACE else ""
    return {"text": table[: 256 << 10], "trace": encoded}
