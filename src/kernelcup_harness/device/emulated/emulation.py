"""Answers requests for a GPU on the processor, so that tasks can be checked without one.

:func:`install` patches ``torch`` (at once, or when it is imported): ``device="cuda"`` means the
processor, ``places`` follows which tensors would be on it, and ``torch.cuda`` has one device that is always
idle. Triton runs in interpreter mode. Unsupported features (inline CUDA, CUDA graphs) raise an error that
names them. Times taken under emulation mean nothing for a GPU.

Known differences from a GPU: ``torch.autocast("cuda")`` keeps to the processor's list of operations (softmax, for
one, stays in half precision), ``torch.Generator`` aside there is one random generator for both devices,
``torch.compile`` ignores its mode and mixes devices, and ``torch.device(0)``, ``torch.cuda.FloatTensor(...)`` as a
constructor and ``torch.accelerator`` are not supported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from kernelcup_harness.device.emulated.communication import gpu, patch_distributed, shown
from kernelcup_harness.device.emulated.compilers import (
    patch_autotuner,
    patch_cpp_extension,
    patch_triton_driver,
    patch_triton_interpreter,
)
from kernelcup_harness.device.emulated.streams import Event, Stream

DEVICE_NAME = "KernelCup emulated device"
MEMORY_BYTES = 16 << 30


def install() -> None:
    """Prepare this process: Triton's interpreter by environment, modules when they are imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    patches: dict[str, Callable[[ModuleType], None]] = {
        "torch": patch_torch,
        "torch.distributed": patch_distributed,
        "torch.utils.cpp_extension": patch_cpp_extension,
        "triton.runtime.autotuner": patch_autotuner,
        "triton.runtime.driver": patch_triton_driver,
        "triton.runtime.interpreter": patch_triton_interpreter,
    }
    for name, patch in patches.items():
        if name in sys.modules:
            patch_once(sys.modules[name], patch)
    sys.meta_path.insert(0, AfterImport(patches))


def patch_once(module: ModuleType, patch: Callable[[ModuleType], None]) -> None:
    """Patch a module unless it is patched already: a second :func:`install` changes nothing."""
    if "kernelcup_emulated" not in vars(module):
        vars(module)["kernelcup_emulated"] = True
        patch(module)


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
            patch_once(module, patch)

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
    from kernelcup_harness.device.emulated import places

    torch.Generator = generator_type(torch, torch.Generator)  # type: ignore[attr-defined]
    tensor = torch.Tensor
    tensor.cuda = lambda self, *_args, **_kwargs: places.moved(self, places.DEVICE)
    tensor.pin_memory = lambda self, *_args, **_kwargs: self
    for name in ("from_numpy", "frombuffer"):  # no mode sees them
        vars(torch)[name] = places.on_host(getattr(torch, name))
    patch_cuda(torch)
    patch_random(torch)
    patch_default_device()
    patch_autocast(torch)
    patch_loading(torch)
    patch_compile(torch)
    mode_type = device_mode(torch)
    mode_type().__enter__()
    patch_threads(mode_type)


def patch_threads(mode_type: Callable[[], Any]) -> None:
    """Enter the mode in every thread: it is a property of the thread that entered it."""
    import threading

    # `run` is what subclasses replace, so the mode must be entered around it, by its caller.
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap_in_mode(self: threading.Thread) -> None:
        with mode_type():
            bootstrap(self)

    threading.Thread._bootstrap_inner = bootstrap_in_mode  # type: ignore[attr-defined]


def patch_default_device() -> None:
    """Keep ``torch.set_default_device("cuda")`` and ``with torch.device("cuda")`` on the processor.

    A default device is at the bottom of the stack, where what it adds is not seen by our mode; a ``with`` is above it.
    """
    from torch.utils import _device

    def fill_in(self: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _device._device_constructors() and kwargs.get("device") is None:
            is_last = _device._len_torch_function_stack() == 0
            kwargs["device"] = on_processor(self.device) if is_last else self.device
        return func(*args, **kwargs)

    _device.DeviceContext.__torch_function__ = fill_in


def patch_autocast(torch: ModuleType) -> None:
    """Let ``torch.autocast("cuda")`` switch on the processor's autocast with the same dtype."""
    autocast = torch.amp.autocast_mode.autocast
    enter, leave = autocast.__enter__, autocast.__exit__

    def enter_both(self: Any) -> Any:
        entered = enter(self)
        if self.device == "cuda":
            self.processor_before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return entered

    def leave_both(self: Any, *failure: Any) -> Any:
        if self.device == "cuda":
            enabled, dtype = self.processor_before
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return leave(self, *failure)

    autocast.__enter__, autocast.__exit__ = enter_both, leave_both


def patch_loading(torch: ModuleType) -> None:
    """Load tensors that were saved on a GPU, or are wanted on one, on the processor."""
    from kernelcup_harness.device.emulated import places

    def restore(storage: Any, location: str) -> Any:
        if on_processor(location) != "cpu":
            return None
        storage.kernelcup_place = places.named_place(location)
        return storage

    def tag(storage: Any) -> str | None:
        return getattr(storage, "kernelcup_place", None)

    # Lower numbers are asked first; torch's own packages begin at 10.
    torch.serialization.register_package(5, tag, restore)


def patch_compile(torch: ModuleType) -> None:
    """Let ``torch.compile`` ignore its mode: the modes tune for a GPU or capture CUDA graphs."""
    from kernelcup_harness.device.emulated import places

    original = torch.compile

    def compile_in_default_mode(model: Any = None, **kwargs: Any) -> Any:
        kwargs.pop("mode", None)
        if model is None:
            return functools.partial(compile_in_default_mode, **kwargs)
        compiled = original(model, **kwargs)
        if not isinstance(model, torch.nn.Module):
            return places.after_compiling(compiled)
        compiled.forward = places.after_compiling(compiled.forward)
        return compiled

    vars(torch)["compile"] = compile_in_default_mode


def device_mode(torch: ModuleType) -> Callable[[], Any]:
    """Return the mode that sends requests for a GPU to the processor."""
    from torch.overrides import TorchFunctionMode

    from kernelcup_harness.device.emulated import places
    from kernelcup_harness.device.emulated.products import half_products

    answers, products = device_answers(torch), half_products(torch)
    to, parse_to = torch.Tensor.to, torch._C._nn._parse_to

    class EmulatedDevice(TorchFunctionMode):  # type: ignore[misc]
        """Rewrite ``device`` arguments, follow where tensors are, and answer the device getters."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            device = kwargs.get("device")
            if func is parse_to:
                return func(*args, **kwargs)  # `Module.to` asks which device its arguments name
            if "device" in kwargs:
                kwargs["device"] = on_processor(device)
            elif func is to and len(args) > 1:
                # Only the first argument can be a device: a later number is `non_blocking` or `copy`.
                device = None if isinstance(args[1], (torch.dtype, torch.Tensor)) else args[1]
                args = (args[0], on_processor(args[1]), *args[2:])
            kwargs.pop("pin_memory", None)
            if func in answers:
                return answers[func](*args, **kwargs)
            if torch.compiler.is_compiling():
                return func(*args, **kwargs)
            return places.called(products.get(func, func), args, kwargs, device)

    return EmulatedDevice


def device_answers(torch: ModuleType) -> dict[Any, Callable[..., Any]]:
    """Return stand-ins for the functions that say where a tensor is, or take it elsewhere."""
    from kernelcup_harness.device.emulated import places

    tensor, device_of = torch.Tensor, places.device_of

    def convert(value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        on_device = device_of(value) == places.DEVICE
        if dtype is None and not kwargs.get("dtype"):
            return tensor.type(value).replace("torch.", "torch.cuda." if on_device else "torch.")
        name = f"{dtype.__module__}.{dtype.__name__}" if isinstance(dtype, type) else dtype
        if isinstance(name, str):
            on_device = name.startswith("torch.cuda.")
            name = name.replace("torch.cuda.", "torch.")
        result = tensor.type(value, *([] if name is None else [name]), *args, **kwargs)
        return places.placed(result, places.DEVICE if on_device else places.HOST, force=True)

    def to_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
        def convert_or_refuse(value: Any, *args: Any, **kwargs: Any) -> Any:
            if device_of(value) == places.DEVICE and not kwargs.get("force"):
                raise TypeError(places.NO_NUMPY)
            return function(value, *args, **kwargs)

        return convert_or_refuse

    def number(value: Any) -> int:
        return gpu() if device_of(value) == places.DEVICE else -1

    return {
        tensor.is_cuda.__get__: lambda value: device_of(value) == places.DEVICE,
        tensor.is_cpu.__get__: lambda value: device_of(value) == places.HOST,
        tensor.device.__get__: lambda value: torch.device(shown(device_of(value))),
        tensor.get_device: number,
        torch.get_device: number,
        tensor.cpu: lambda value, **_kwargs: places.moved(value, places.HOST),
        tensor.numpy: to_numpy(tensor.numpy),
        tensor.__array__: to_numpy(tensor.__array__),
        tensor.type: convert,
    }


def generator_type(torch: ModuleType, base: type) -> type:
    """Return a Generator that takes ``device="cuda"`` and draws on the processor."""

    class Meta(type(base)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, base)

    class Generator(base, metaclass=Meta):  # type: ignore[misc]
        """Stand-in for ``torch.Generator``."""

        def __new__(cls, device: Any = "cpu") -> Any:
            made = super().__new__(cls, on_processor(device))
            made.on_gpu = on_processor(device) is not device and str(device) != "cpu"
            return made

        @property
        def device(self) -> Any:
            """Return the requested device."""
            return torch.device(shown("cuda:0") if self.on_gpu else "cpu")

    return Generator


def properties() -> SimpleNamespace:
    """Return the result of ``get_device_properties`` for the emulated device."""
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
    """Return a new function that takes any arguments and returns ``value``.

    Each name gets its own function: TorchDynamo keeps a table by function object.
    """
    return lambda *_args, **_kwargs: value


def no_graphs() -> Callable[..., Any]:
    """Return a function that refuses to capture."""

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("CUDA graphs need a real GPU; this machine has none (emulated device)")

    return refuse


NOTHING = (
    "synchronize set_device empty_cache init ipc_collect set_stream _lazy_init "
    "reset_peak_memory_stats set_per_process_memory_fraction"
).split()
# The last two are what the classes `torch.cuda.device` and `device_of` call: they stay classes,
# for others derive from them and ask for instances of them.
ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved "
    "_exchange_device _maybe_exchange_device"
).split()
GRAPHS = "CUDAGraph graph make_graphed_callables".split()


def patch_cuda(torch: ModuleType) -> None:
    """Fill ``torch.cuda`` with one idle device."""
    stream = Stream()
    answers: dict[str, Any] = {name: always(None) for name in NOTHING}
    answers |= {name: always(0) for name in ZERO}
    answers |= {name: no_graphs() for name in GRAPHS}
    answers |= {
        "is_available": always(True),
        "is_initialized": always(True),
        "is_current_stream_capturing": always(False),
        "is_bf16_supported": always(True),
        "device_count": lambda: int(os.environ.get("WORLD_SIZE", "1")),
        "current_device": gpu,
        "get_device_name": always(DEVICE_NAME),
        "get_device_capability": always((9, 0)),
        "get_device_properties": always(properties()),
        "mem_get_info": always((MEMORY_BYTES, MEMORY_BYTES)),
        "current_stream": always(stream),
        "default_stream": always(stream),
        "stream": always(contextlib.nullcontext()),
        "Event": Event,
        "Stream": Stream,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, always(None))
    torch.cuda.nvtx.range = always(contextlib.nullcontext())
    # A CUDA build of torch would go on and ask the driver, which is not there.
    torch.accelerator.current_accelerator = always(None)
    torch.backends.cudnn.is_acceptable = always(False)


def patch_random(torch: ModuleType) -> None:
    """Let ``torch.cuda``'s seeds and states be those of the processor's generator."""
    torch.cuda.default_generators = (torch.default_generator,)
    for name, answer in (("current_device", 0), ("device_count", 1), ("is_initialized", True)):
        # This module took the functions by name before they were replaced.
        setattr(torch.cuda.random, name, always(answer))
