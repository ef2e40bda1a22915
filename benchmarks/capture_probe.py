"""What becomes of calls that are not on PyTorch's stream where they are captured all the same.

    python benchmarks/capture_probe.py FILE [--only jax cupy default]

Each try is a process of its own: it captures some calls of a sum, looks whether functions of the host are in the
graph, replays it on other inputs, and calls the sum again. ``jax`` and ``cupy`` come through dlpack, ``default`` is
launched on the default stream, as a kernel in CUDA C++ is that names no stream. ``FILE`` is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS, REPLAYS, AFTERWARDS = 20, 50, 200
LONGEST_S = 60.0
TRIES = {"jax": 4, "cupy": 1, "default": 1}


def main() -> int:
    """Try each in processes of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*TRIES], default=[*TRIES])
    parser.add_argument("--here", choices=[*TRIES], help="try it in this process")
    chosen = parser.parse_args()
    if chosen.here:
        attempt(chosen.here)
        return 0
    found = [tried(name) for name in chosen.only for _ in range(TRIES[name])]
    chosen.file.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def tried(name: str) -> dict[str, Any]:
    """Return what a process said, and how it ended."""
    began = time.monotonic()
    command = [sys.executable, __file__, os.devnull, "--here", name]
    environ = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as child:
        try:
            said, erred = child.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            child.kill()
            said, erred = child.communicate()
    print(f"{name}: ended with {child.returncode}\n{said}{erred[-1500:]}", flush=True)
    told = {"what": name, "ended": child.returncode, "said": said.splitlines(), "erred": erred[-3000:]}
    return told | {"seconds": time.monotonic() - began}


def attempt(name: str) -> None:
    """Capture, replay, and call again; say how far it came."""
    import ctypes

    import torch

    from kernelcup_harness import graphs

    a, b = (torch.rand(1024, 1024, device="cuda") for _ in range(2))
    call = sum_by(name, a, b)
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    values: list[Any] = []
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="global")
            try:
                values = [call() for _ in range(CALLS)]
            finally:
                graph.capture_end()
        found = graphs.has_host_function(graph.raw_cuda_graph(), ctypes.CDLL("libcuda.so.1"))
        print(f"captured, with functions of the host: {found}", flush=True)
        for number in range(REPLAYS):
            a.fill_(float(number))
            graph.replay()
            torch.cuda.synchronize()
            right = sum(torch.equal(value, a + b) for value in values)
            if number in (0, REPLAYS - 1):
                print(f"replay {number + 1}: {right} of {CALLS} right", flush=True)
    except BaseException as error:
        print(
            f"not captured ({graphs.reason_of(error)}): {error.__context__!r:.300} {error!r:.300}", flush=True
        )
        graphs.clean_up()
    for _ in range(AFTERWARDS):
        last = call()
    torch.cuda.synchronize()
    print(f"called again: {'right' if torch.equal(last, a + b) else 'wrong'}", flush=True)


def sum_by(name: str, a: Any, b: Any) -> Callable[[], Any]:
    """Return what adds two tensors."""
    import torch

    if name == "jax":
        import jax

        add = jax.jit(lambda one, other: one + other)
        return lambda: torch.from_dlpack(add(jax.dlpack.from_dlpack(a), jax.dlpack.from_dlpack(b)))
    if name == "cupy":
        import cupy

        return lambda: torch.from_dlpack(cupy.from_dlpack(a) + cupy.from_dlpack(b))

    def on_default_stream() -> Any:
        out = torch.empty_like(a)
        with torch.cuda.stream(torch.cuda.default_stream()):
            torch.add(a, b, out=out)
        return out

    return on_default_stream


if __name__ == "__main__":
    sys.exit(main())
