"""What the processes of a job are given: files, variables, limits. No torch."""

from __future__ import annotations

import base64
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

from kernelcup_harness.isolation import processes, sandbox
from kernelcup_harness.isolation.sizes import ranks_of
from kernelcup_harness.protocol import Backend, JobSpec, SourceTree
from kernelcup_harness.protocol.files import import_name
from kernelcup_harness.protocol.variables import COMPILE_FOR, PER_THREAD

WATCH_INTERVAL_S = 0.1

# Folders in which compilers keep results for reuse: extensions of torch, kernels of Triton, submissions in CUDA C++.
CUDA_FOLDER = "KERNELCUP_CUDA_DIR"
BUILD_FOLDERS = ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", CUDA_FOLDER)
# A submission with one of these words probably compiles CUDA C++.
CUDA_MARKS = ("cpp_extension", "load_inline")
# A submission with one of these words names streams. The default stream waits for others, the thread's does not.
STREAM_MARKS = ("cudaStream", "CUDAStream", "cuStream", "ExternalStream", "cuda.Stream", "cuda.stream")


def write_files(folder: Path, files: Mapping[str, str], data: Mapping[str, str] | None = None) -> None:
    """Write text files below ``folder``, and data files, which are in base64.

    Raise ValueError for a name that leads out of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    contents = {name: text.encode() for name, text in files.items()}
    contents |= {name: base64.b64decode(text) for name, text in (data or {}).items()}
    for name, content in contents.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or path.resolve() == folder.resolve():
            raise ValueError(f"file name {name!r} leads out of the job's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def hides(tree: SourceTree) -> str:
    """Return an installed module that a file beside the entry would replace in the harness's own processes."""
    names = {import_name(name) for name in tree.files if name != tree.entry}
    found = (name for name in sorted(names) if name in sys.stdlib_module_names or PathFinder.find_spec(name))
    return next(found, "")


def memory_limit(spec: JobSpec) -> int:
    """Return the host memory in bytes that a contestant may use on this machine."""
    return min(spec.limits.memory_bytes * max(1, ranks_of(spec)), int(processes.total_memory() * 0.6))


def group_memory(spec: JobSpec) -> int:
    """Return the bytes that a contestant's processes may hold together before the kernel ends one of them.

    More than :func:`memory_limit`, which the runner watches: a call's result is shared with the judge
    and counted against the process that wrote it.
    """
    return min(memory_limit(spec) + spec.limits.result_bytes, int(processes.total_memory() * 0.8))


def backend_environment(backend: Backend) -> dict[str, str]:
    """Return the variables that select the backend in child processes."""
    # JAX would take three quarters of the device's memory at its first call.
    found = {"KERNELCUP_BACKEND": backend.value, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if part := os.environ.get("KERNELCUP_HARNESS_GPU_PART"):
        found["KERNELCUP_GPU_PART"] = str(min(1.0, max(0.0, float(part))))
    if backend is Backend.EMULATED:
        found |= {"KERNELCUP_EMULATED": "1", "TRITON_INTERPRET": "1"}
    if backend is not Backend.CUDA:
        found["CUDA_VISIBLE_DEVICES"] = ""
    return found


def compiler_environment(backend: Backend, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the GPU to compile for: equal with and without a GPU, so builds are reused."""
    if backend is Backend.EMULATED and environ.get(COMPILE_FOR):
        return {"TORCH_CUDA_ARCH_LIST": environ[COMPILE_FOR]}
    if backend is not Backend.CUDA:
        return {}
    architectures = architecture_list(device_capabilities(), environ.get("CUDA_VISIBLE_DEVICES"))
    return {"TORCH_CUDA_ARCH_LIST": architectures} if architectures else {}


def stream_environment(backend: Backend, submission: str) -> dict[str, str]:
    """Return the variables that put CUDA C++ on the stream of its thread, which a graph can record.

    Only for submissions that seem to compile CUDA C++ and to name no stream; others use the default stream, whose
    rules they may rely on.
    """
    compiles, names = (any(mark in submission for mark in marks) for marks in (CUDA_MARKS, STREAM_MARKS))
    if backend is not Backend.CUDA or not compiles or names:
        return {}
    return {"NVCC_PREPEND_FLAGS": "--default-stream=per-thread", PER_THREAD: "1"}


def build_folders(folder: Path, *, boxed: bool) -> dict[str, str]:
    """Return the folders for a job's builds, the same for all its processes.

    Builds are validated by the names of their files. In a sandbox the names are the same anyway, each
    with its own memory behind them; then this returns nothing.
    """
    if boxed:
        return {}
    found = {name: folder / name.lower() for name in BUILD_FOLDERS}
    for path in found.values():
        path.mkdir(parents=True, exist_ok=True)
    return {name: str(path) for name, path in found.items()}


@functools.cache
def device_capabilities() -> tuple[tuple[str, str, str], ...]:
    """Return index, UUID and compute capability of each NVIDIA GPU, without torch; empty without one."""
    if shutil.which("nvidia-smi") is None:
        return ()
    query = ["nvidia-smi", "--query-gpu=index,uuid,compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (subprocess.SubprocessError, OSError):
        return ()
    lines = [[part.strip() for part in line.split(",")] for line in answer.splitlines()]
    return tuple((line[0], line[1], line[2]) for line in lines if len(line) == 3)


def architecture_list(devices: tuple[tuple[str, str, str], ...], visible: str | None) -> str:
    """Return the architectures that torch would choose for the GPUs of this job if it saw them.

    ``visible`` is a value of ``CUDA_VISIBLE_DEVICES``; None or names of no GPU mean all.
    """
    named = visible.split(",") if visible else []
    chosen = [each for each in devices if each[0] in named or each[1] in named] or list(devices)
    numbers = {tuple(map(int, each[2].split("."))) for each in chosen if each[2].replace(".", "").isdigit()}
    return ";".join(".".join(map(str, number)) for number in sorted(numbers)) + ("+PTX" if numbers else "")


def watch(
    child: processes.Child, deadline: float, memory_bytes: int, *, keep: Collection[int] | None = ()
) -> None:
    """Wait until a process ends, or end it at its limits, then end everything that it started.

    ``keep`` has the ids of unrelated processes that keep running; None spares all but those below this process.
    """
    while child.wait(WATCH_INTERVAL_S) is None:
        if time.monotonic() > deadline:
            child.kill("time")
        elif processes.used_memory(child) > memory_bytes:
            child.kill("memory")
    # Workers of a pool may outlive the process that started them, and hold the pipe open.
    processes.kill_tree(child.process.pid)
    if keep is not None:
        processes.kill_descendants(keep=keep)


def parent_id(*, boxed: bool) -> str:
    """Return the parent's process id as the child sees it."""
    return str(sandbox.parent_id() if boxed else os.getpid())
