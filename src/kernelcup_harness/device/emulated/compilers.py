"""Compilers under emulation: Triton's driver and autotuner answer without a GPU, CUDA C++ is compiled and not run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

NO_NVCC = "inline CUDA needs a real GPU and nvcc; this machine has none (emulated device)"
IMPLICIT = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"


def refuse(_module: ModuleType, _texts: Sequence[str], _asked: Mapping[str, Any]) -> NoReturn:
    """Raise ``ImportError``: nothing here can compile CUDA C++."""
    raise ImportError(NO_NVCC)


only_compile: Callable[[ModuleType, Sequence[str], Mapping[str, Any]], NoReturn] = refuse
"""What is done with CUDA C++, given torch's module, the files and the arguments of the call; set by who can compile."""


def patch_cpp_extension(module: ModuleType) -> None:
    """Let C++ through; compile CUDA C++ where nvcc is, and say that it cannot run."""
    original_inline: Callable[..., Any] = vars(module)["load_inline"]
    original_load: Callable[..., Any] = vars(module)["load"]

    def load_inline(name: Any, cpp_sources: Any, cuda_sources: Any = None, *args: Any, **kwargs: Any) -> Any:
        if cuda_sources or kwargs.get("with_cuda"):
            sources = [cuda_sources or ""] if isinstance(cuda_sources or "", str) else list(cuda_sources)
            implicit = "" if kwargs.get("no_implicit_headers") else IMPLICIT
            only_compile(module, [implicit + "\n".join(sources)], kwargs)
        return original_inline(name, cpp_sources, cuda_sources, *args, **kwargs)

    def load(name: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        paths = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
        files = [Path(path) for path in paths if os.fspath(path).endswith((".cu", ".cuh"))]
        if kwargs.get("with_cuda") or files:
            only_compile(module, [file.read_text(encoding="utf-8") for file in files], kwargs)
        return original_load(name, sources, *args, **kwargs)

    vars(module).update(load_inline=load_inline, load=load)


def patch_autotuner(module: ModuleType) -> None:
    """Give every configuration the same time, so that autotuning takes the first."""
    module.Autotuner._bench = lambda _self, *_args, **_kwargs: [1.0, 1.0, 1.0]


TRITON_PROPERTIES = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 1,
    "warpSize": 32,
    "sm_clock_rate": 1_000_000,
    "mem_clock_rate": 1_000_000,
    "mem_bus_width": 1024,
}


def patch_triton_driver(module: ModuleType) -> None:
    """Implement the functions of Triton's driver that submissions call."""

    class EmulatedDriver:
        utils = SimpleNamespace(get_device_properties=lambda _device=0: dict(TRITON_PROPERTIES))

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

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            # On a GPU this is as large as its cache; here there is nothing to flush.
            return torch.empty(1, dtype=torch.int32)

        def clear_cache(self, cache: Any) -> None:
            cache.zero_()

    module.driver.set_active(EmulatedDriver())


POINTER = "Pointer argument cannot be accessed from Triton (cpu tensor?)"


def patch_triton_interpreter(module: ModuleType) -> None:
    """Refuse tensors on the host, as the launcher of a compiled kernel does."""
    executor: Any = vars(module)["GridExecutor"]
    copy_arguments = executor._init_args_hst

    def check_and_copy(self: Any, args: Any, kwargs: Any) -> Any:
        # Triton may be imported before torch.
        from kernelcup_harness.device.emulated import places

        for tensor in places.tensors_in((tuple(args), tuple(kwargs.values()))):
            if places.place_of(tensor) == places.HOST and tensor.numel():
                raise ValueError(POINTER)
        return copy_arguments(self, args, kwargs)

    executor._init_args_hst = check_and_copy
