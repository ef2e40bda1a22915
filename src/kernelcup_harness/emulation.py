"""Answer requests for a GPU on the processor, so that tasks can be checked without one.

:func:`install` patches ``torch`` (at once, or when it is imported): ``device="cuda"`` means the
processor, tensors say that they are on ``cuda:0``, and ``torch.cuda`` has one device that is always
idle. Triton runs in interpreter mode. What cannot be answered (inline CUDA, CUDA graphs) says so.
Times taken under emulation mean nothing for a GPU.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

DEVICE_NAME = "KernelCup emulated device"
MEMORY_BYTES = 16 << 30


def install() -> None:
    """Prepare this process: Triton's interpreter by environment, modules when they are imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    patches: dict[str, Callable[[ModuleType], None]] = {
        "torch": patch_torch,
        "torch.utils.cpp_extension": patch_cpp_extension,
        "triton.runtime.autotuner": patch_autotuner,
        "triton.runtime.driver": patch_triton_driver,
    }
    for name, patch in patches.items():
        if name in sys.modules:
            patch(sys.modules[name])
    sys.meta_path.insert(0, AfterImport(patches))


class AfterImport(importlib.abc.MetaPathFinder):
    """Run a patch right after a module was imported for the first time."""

    def __init__(self, patches: dict[str, Callable[[ModuleType], None]]) -> None:
        self._patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module as usual and wrap its loader."""
        patch = self._patches.get(fullname)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def on_processor(device: Any) -> Any:
    """Return ``cpu`` for anything that names a GPU, else ``device`` itself."""
    if isinstance(device, str):
        return "cpu" if device == "cuda" or device.startswith("cuda:") else device
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu"
    return "cpu" if getattr(device, "type", None) == "cuda" else device


def patch_torch(torch: ModuleType) -> None:
    """Make ``torch`` of this process answer for one GPU."""
    torch.Generator = generator_type(torch.Generator)  # type: ignore[attr-defined]
    tensor = torch.Tensor
    tensor.cuda = lambda self, *_args, **_kwargs: self.clone()
    tensor.pin_memory = lambda self, *_args, **_kwargs: self
    torch.nn.Module.cuda = lambda self, *_args, **_kwargs: self
    patch_cuda(torch)
    mode_type = device_mode(torch)
    mode_type().__enter__()
    patch_threads(mode_type)


def patch_threads(mode_type: Callable[[], Any]) -> None:
    """Enter the mode in every thread: it is a property of the thread that entered it."""
    import threading

    run = threading.Thread.run

    def run_in_mode(self: threading.Thread) -> None:
        with mode_type():
            run(self)

    threading.Thread.run = run_in_mode  # type: ignore[method-assign]


def device_mode(torch: ModuleType) -> Callable[[], Any]:
    """Return the mode that sends requests for a GPU to the processor."""
    from torch.overrides import TorchFunctionMode

    getters: dict[Any, Callable[[Any], Any]] = {
        torch.Tensor.is_cuda.__get__: lambda _tensor: True,
        torch.Tensor.device.__get__: lambda _tensor: torch.device("cuda", 0),
    }
    by_place = {torch.Tensor.to, torch.Tensor.type}

    class EmulatedDevice(TorchFunctionMode):  # type: ignore[misc]
        """Rewrite ``device`` arguments and answer the device getters."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            answer = getters.get(func)
            if answer is not None:
                return answer(args[0])
            kwargs = dict(kwargs or {})
            if "device" in kwargs:
                kwargs["device"] = on_processor(kwargs["device"])
            kwargs.pop("pin_memory", None)
            if func in by_place:
                # `to` copies between devices; a copy that stays here must still be a copy.
                moved = [
                    on_processor(argument) if not isinstance(argument, int) else argument for argument in args
                ]
                return func(*moved, **kwargs)
            return func(*args, **kwargs)

    return EmulatedDevice


def generator_type(base: type) -> type:
    """Return a Generator that takes ``device="cuda"`` and draws on the processor."""

    class Meta(type(base)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, base)

    class Generator(base, metaclass=Meta):  # type: ignore[misc]
        """Stand-in for ``torch.Generator``."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, on_processor(device))

    return Generator


class Event:
    """A CUDA event on the processor's clock."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self._at_ns: int | None = None

    def record(self, *_args: Any) -> None:
        """Take the time."""
        self._at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Everything has happened already."""

    def wait(self, *_args: Any) -> None:
        """Everything has happened already."""

    def query(self) -> bool:
        """Everything has happened already."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """Return milliseconds up to ``end``."""
        if self._at_ns is None or end._at_ns is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._at_ns - self._at_ns) / 1e6


class Stream:
    """A stream on which everything has happened already."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait_stream(self, _stream: Any) -> None:
        """Nothing to wait for."""

    def wait_event(self, _event: Any) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Always idle."""
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event now."""
        event = event or Event()
        event.record()
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_args: object) -> None:
        pass


def properties() -> SimpleNamespace:
    """Return what ``get_device_properties`` says of the emulated device."""
    return SimpleNamespace(
        name=DEVICE_NAME,
        major=9,
        minor=0,
        total_memory=MEMORY_BYTES,
        multi_processor_count=1,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_multiprocessor=233472,
        warp_size=32,
        L2_cache_size=50 << 20,
        gcnArchName="",
    )


def always(value: Any) -> Callable[..., Any]:
    """Return a new function that takes anything and returns ``value``.

    Each name gets one of its own: TorchDynamo keeps a table by function object.
    """
    return lambda *_args, **_kwargs: value


def no_graphs() -> Callable[..., Any]:
    """Return a function that refuses to capture."""

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("CUDA graphs need a real GPU; this machine has none (emulated device)")

    return refuse


NOTHING = (
    "synchronize set_device empty_cache init ipc_collect manual_seed manual_seed_all set_stream "
    "reset_peak_memory_stats set_per_process_memory_fraction"
).split()
ZERO = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved current_device".split()
CONTEXTS = "stream device device_of".split()
GRAPHS = "CUDAGraph graph make_graphed_callables".split()


def patch_cuda(torch: ModuleType) -> None:
    """Fill ``torch.cuda`` with one idle device."""
    stream = Stream()
    answers: dict[str, Any] = {name: always(None) for name in NOTHING}
    answers |= {name: always(0) for name in ZERO}
    answers |= {name: always(contextlib.nullcontext()) for name in CONTEXTS}
    answers |= {name: no_graphs() for name in GRAPHS}
    answers |= {
        "is_available": always(True),
        "is_initialized": always(True),
        "is_bf16_supported": always(True),
        "device_count": always(1),
        "get_device_name": always(DEVICE_NAME),
        "get_device_capability": always((9, 0)),
        "get_device_properties": always(properties()),
        "mem_get_info": always((MEMORY_BYTES, MEMORY_BYTES)),
        "current_stream": always(stream),
        "default_stream": always(stream),
        "Event": Event,
        "Stream": Stream,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, always(None))
    torch.cuda.nvtx.range = always(contextlib.nullcontext())


def patch_cpp_extension(module: ModuleType) -> None:
    """Let inline C++ through and refuse inline CUDA with a reason."""
    original: Callable[..., Any] = vars(module)["load_inline"]

    def load_inline(name: Any, cpp_sources: Any, cuda_sources: Any = None, *args: Any, **kwargs: Any) -> Any:
        if cuda_sources:
            raise ImportError(
                "inline CUDA needs a real GPU and nvcc; this machine has none (emulated device)"
            )
        return original(name, cpp_sources, cuda_sources, *args, **kwargs)

    vars(module)["load_inline"] = load_inline


def patch_autotuner(module: ModuleType) -> None:
    """Give every configuration the same time, so that autotuning takes the first."""
    module.Autotuner._bench = lambda _self, *_args, **_kwargs: [1.0, 1.0, 1.0]


def patch_triton_driver(module: ModuleType) -> None:
    """Answer the questions that submissions ask Triton's driver."""

    class EmulatedDriver:
        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", 0)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, _device: int = 0) -> int:
            return 0

        def get_device_capability(self, _device: int = 0) -> tuple[int, int]:
            return (9, 0)

        def get_current_target(self) -> Any:
            return SimpleNamespace(backend="cuda", arch=90, warp_size=32)

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def get_benchmarker(self) -> Callable[..., list[float]]:
            return lambda call, **_kwargs: (call(), [1.0, 1.0, 1.0])[1]

    module.driver.set_active(EmulatedDriver())
