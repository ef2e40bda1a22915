"""Compilers under emulation: Triton's driver and autotuner answer without a GPU, CUDA C++ is compiled and not run."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from kernelcup_harness.build import compilers
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from kernelcup_harness.submission.port import NotCompiled

NO_NVCC = "inline CUDA needs a real GPU and nvcc; this machine has none (emulated device)"
ONLY_COMPILED = "compiled, not run: no GPU here"
MOST_TEXT = 8 << 10
ARCHITECTURES = "9.0a;10.0a"
IMPLICIT = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
# A machine without a GPU may lack these: PyTorch's own for CUDA, the toolkit's libraries, and what builds on them.
LACKED = re.compile(
    r"fatal error: ((?:c10|ATen|torch|thrust|cub|cute|cutlass)/\S+|cu\w+\.h|nv\w+\.h): No such file"
)


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


def only_compile(module: ModuleType, texts: Sequence[str], asked: Mapping[str, Any]) -> NoReturn:
    """Compile CUDA C++ for the devices that are meant. Raise what came of it, here and in later processes of the job.

    Raises:
        NotCompiled: A compiler refused it.
        ImportError: It was compiled, or this machine lacks what that needs.
    """
    nvcc = find_nvcc(os.environ)
    if nvcc is None:
        raise ImportError(NO_NVCC)
    wanted = os.environ.get("TORCH_CUDA_ARCH_LIST") or ARCHITECTURES
    targets = [f"sm_{each.replace('.', '')}" for each in wanted.split(";")]
    flags = [
        *(asked.get("extra_cuda_cflags") or ()),
        *[f"-I{each}" for each in asked.get("extra_include_paths") or ()],
    ]
    folder = compilers.folder_of({"TORCH_EXTENSIONS_DIR": tempfile.gettempdir(), **os.environ})
    folder.mkdir(parents=True, exist_ok=True)
    for text in texts:
        digest = hashlib.sha256(repr((text, targets, flags)).encode()).hexdigest()[:16]
        source = folder / f"cuda_{digest}.cu"
        said, done = source.with_suffix(".txt"), source.with_suffix(".done")
        if not done.exists():
            source.write_text(text, encoding="utf-8")
            said.write_text(compiled(module, nvcc, source, targets, flags), encoding="utf-8")
            done.touch()
        if errors := said.read_text(encoding="utf-8"):
            if lacked := LACKED.search(errors):
                where = "which this machine does not have, so nothing of it was checked"
                raise ImportError(f"the CUDA C++ could not be compiled here: it needs {lacked[1]}, {where}")
            raise NotCompiled(f"nvcc did not compile it:\n{errors}")
    raise ImportError(
        f"{ONLY_COMPILED} ({', '.join(targets)}); it was not linked, and its C++ sources were left out"
    )


def compiled(
    module: ModuleType, nvcc: str, source: Path, targets: Sequence[str], flags: Sequence[str]
) -> str:
    """Return what a compiler says of a file that it refuses, empty if it is compiled."""
    includes = [
        *module.include_paths(),
        str(Path(nvcc).resolve().parents[1] / "include"),
        sysconfig.get_paths()["include"],
    ]
    argv = [
        nvcc,
        *(word for each in includes for word in ("-isystem", each)),
        *vars(module)["COMMON_NVCC_FLAGS"],
    ]
    argv += [f"-gencode=arch={each.replace('sm_', 'compute_')},code={each}" for each in targets]
    argv += [
        "-DTORCH_EXTENSION_NAME=inline",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        "-std=c++20",
        "-Xcompiler",
        "-fPIC",
    ]
    argv += [*flags, "-c", str(source), "-o", str(source.with_suffix(".o"))]
    program = source.with_name(compilers.PROGRAM)
    if program.exists():
        argv = [sys.executable, "-I", "-S", str(program), argv[0], str(source.parent), *argv[1:]]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    source.with_suffix(".o").unlink(missing_ok=True)
    text = (done.stdout + done.stderr).replace(str(source), "cuda.cu")[:MOST_TEXT]
    return (text or f"nvcc ended with {done.returncode}") if done.returncode else ""


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
