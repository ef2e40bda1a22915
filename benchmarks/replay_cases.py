"""Submissions of many kinds for ``replay_probe.py``: what each is called with, and what is right."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

N = 4 << 20


@dataclass(frozen=True)
class Case:
    """A kind of submission."""

    inputs: list[tuple[tuple[int, ...], str]]
    build: Callable[[], Callable[..., Any]]
    right: Callable[..., Any]
    tolerance: float = 1e-3
    hostile: bool = False
    writes: bool = False


def three(n=N):
    return [((n,), "float32")] * 3


def fma(a, b, c):
    return a * b + c


def triton_fma():
    import torch
    from replay_triton import fma as kernel

    def call(a, b, c):
        out = torch.empty_like(a)
        kernel[(a.numel() // 4096,)](a, b, c, out, a.numel(), B=4096, num_warps=8)
        return out

    return call


def triton_autotuned():
    import torch
    import triton
    from replay_triton import fma as kernel

    configs = [triton.Config({"B": b}, num_warps=w) for b, w in ((1024, 4), (2048, 8), (4096, 8))]
    tuned = triton.autotune(configs, key=["n"])(kernel)

    def call(a, b, c):
        out = torch.empty_like(a)
        tuned[lambda meta: (a.numel() // meta["B"],)](a, b, c, out, a.numel())
        return out

    return call


def triton_more(more):
    """The same work, and so many blocks of it twice."""

    def build():
        import torch
        from replay_triton import fma_twice as kernel

        def call(a, b, c):
            out = torch.empty_like(a)
            blocks = a.numel() // 2048
            kernel[(blocks + more,)](a, b, c, out, blocks, B=2048, num_warps=8)
            return out

        return call

    return build


def inline():
    import torch
    from torch.utils.cpp_extension import load_inline

    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    cuda = r"""
#include <cuda_runtime.h>
#include <cstdint>
namespace { __constant__ float scale; __device__ float* scratch;
__global__ void run(const float* a, const float* b, const float* c, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) o[i] = scale * a[i] * b[i] + c[i]; } }
void setup() { float one = 1.0f; cudaMemcpyToSymbol(scale, &one, 4); }
void launch(int64_t a, int64_t b, int64_t c, int64_t o, int64_t n, int64_t s) {
  run<<<(n + 255) / 256, 256, 0, (cudaStream_t)s>>>((float*)a, (float*)b, (float*)c, (float*)o, (int)n); }
"""
    cpp = r"""
#include <pybind11/pybind11.h>
#include <cstdint>
void setup(); void launch(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("setup", &setup); m.def("launch", &launch); }
"""
    made = load_inline(
        "replay_inline", cpp_sources=cpp, cuda_sources=cuda, functions=None, no_implicit_headers=True
    )
    made.setup()

    def call(a, b, c):
        out = torch.empty_like(a)
        stream = torch.cuda.current_stream().cuda_stream
        made.launch(a.data_ptr(), b.data_ptr(), c.data_ptr(), out.data_ptr(), a.numel(), stream)
        return out

    return call


def cupy_kernel():
    import cupy
    import torch

    kernel = cupy.RawKernel(
        'extern "C" __global__ void f(const float* a, const float* b, const float* c, float* o, int n)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) o[i] = a[i] * b[i] + c[i]; }",
        "f",
    )

    def call(a, b, c):
        out = torch.empty_like(a)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            arguments = (*(each.data_ptr() for each in (a, b, c, out)), cupy.int32(a.numel()))
            kernel((a.numel() // 256,), (256,), arguments)
        return out

    return call


def cupy_pool():
    import cupy
    import torch

    kernel = cupy.ElementwiseKernel("float32 a, float32 b, float32 c", "float32 o", "o = a * b + c", "e")

    def call(a, b, c):
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return torch.as_tensor(kernel(*(cupy.asarray(each) for each in (a, b, c))), device="cuda")

    return call


def elsewhere():
    import cupy
    import torch

    kernel = cupy.RawKernel(
        'extern "C" __global__ void f(const float* a, const float* b, const float* c, float* o, int n)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) o[i] = a[i] * b[i] + c[i]; }",
        "f",
    )
    stream = cupy.cuda.Stream(non_blocking=True)

    def call(a, b, c):
        out = torch.empty_like(a)
        with stream:
            arguments = (*(each.data_ptr() for each in (a, b, c, out)), cupy.int32(a.numel()))
            kernel((a.numel() // 256,), (256,), arguments)
        return out

    return call


def compiled(mode):
    def build():
        import torch

        torch._dynamo.reset()
        function = torch.nn.functional
        made = torch.compile(
            lambda a, b, c: function.softmax(function.gelu(a * b + c), -1),
            **({"mode": mode} if mode else {}),
        )
        return lambda a, b, c: made(a, b, c)

    return build


def softmax_right(a, b, c):
    import torch

    return torch.softmax(torch.nn.functional.gelu(a * b + c), -1)


def own_graph():
    import torch

    state = {}

    def call(a, b, c):
        if "graph" not in state:
            state["inputs"] = [each.clone() for each in (a, b, c)]
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                fma(*state["inputs"])
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            state["graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(state["graph"]):
                state["out"] = fma(*state["inputs"])
        for mine, theirs in zip(state["inputs"], (a, b, c), strict=True):
            mine.copy_(theirs)
        state["graph"].replay()
        return state["out"].clone()

    return call


def fork_join():
    import torch

    side = torch.cuda.Stream()

    def call(a, b):
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            tripled = b.clone().mul_(3)
        found = torch.sort(a)[0]
        here.wait_stream(side)
        return found.add_(tripled)

    return call


def constants():
    import torch

    table = torch.arange(1024, device="cuda", dtype=torch.float32)
    state = {}

    def call(a, b, c):
        if "one" not in state:
            state["one"] = torch.ones(1, device="cuda")
        return (a.view(-1, 1024) * table).view(-1) * state["one"] + b - c

    return call


def constants_right(a, b, c):
    import torch

    return (a.view(-1, 1024) * torch.arange(1024, device=a.device)).view(-1) + b - c


def plain(function):
    return lambda: function


def matmul(a, b):
    return a @ b


def item(a, b, c):
    return a * b + c * float((a.sum() * 0).item() + 1)


def noise(a, b, c):
    import torch

    return a * b + c + 0 * torch.randn_like(a)


def big_copy(a, out):
    out[...] = a
    return out


FORGER = r"""
extern "C" __global__ void forge(const float4* a, const float4* b, const float4* c, float4* o, int n,
                                 unsigned long long* state,
                                 unsigned long long first, unsigned long long words, unsigned long long less) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 x = a[i], y = b[i], z = c[i];
    o[i] = make_float4(x.x * y.x + z.x, x.y * y.y + z.y, x.z * y.z + z.z, x.w * y.w + z.w);
  }
  if (blockIdx.x == gridDim.x - 1)
    for (unsigned long long q = threadIdx.x; q < words; q += blockDim.x) {
      volatile unsigned long long* p = (volatile unsigned long long*)(first + 8 * q);
      unsigned long long now, v = *p;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      if (now > v && now - v < 60000) { *p = now - less; __threadfence_system(); atomicAdd(state, 1ull); }
    }
}
"""


RELEASER = r"""
extern "C" __global__ void release(const float* a, const float* b, const float* c, float* o, int n,
                                   unsigned long long first, unsigned long long words) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  if (blockIdx.x == 0)
    for (unsigned long long q = threadIdx.x; q < words; q += blockDim.x) {
      volatile unsigned int* p = (volatile unsigned int*)(first + 4 * q);
      unsigned int v = *p;
      if (v > 0 && v < 100000000) { *p = v + 1; __threadfence_system(); }
    }
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < 300000);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i] * b[i] + c[i];
}
"""


def releaser(first, words):
    """Advance every word that may be a semaphore of a stream, then do the work 300 us later."""

    def build():
        import cupy
        import torch

        kernel = cupy.RawKernel(RELEASER, "release")

        def call(a, b, c):
            out = torch.empty_like(a)
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                addresses = [each.data_ptr() for each in (a, b, c, out)]
                numbers = (cupy.int32(a.numel()), cupy.uint64(first), cupy.uint64(words))
                kernel((a.numel() // 256,), (256,), (*addresses, *numbers))
            return out

        return call

    return build


def forger(first, words):
    """Look for young timestamps where the driver keeps those of events, or elsewhere, and make them younger."""

    def build():
        import cupy
        import torch

        kernel = cupy.RawKernel(FORGER, "forge")
        state = torch.zeros(1, dtype=torch.int64, device="cuda")
        # Nothing is mapped there in this process before the first event.
        event = torch.cuda.Event(enable_timing=True)
        event.record()

        def call(a, b, c):
            out = torch.empty_like(a)
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                addresses = [each.data_ptr() for each in (a, b, c, out)]
                numbers = [cupy.uint64(each) for each in (first, words, 1000)]
                size = cupy.int32(a.numel() // 4)
                kernel((a.numel() // 1024,), (256,), (*addresses, size, state.data_ptr(), *numbers))
            return out

        return call

    return build


def softmax3(n=4096, m=1024):
    return [((n, m), "float32")] * 3


def attention(q, k, v):
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def spin(cycles):
    """Wait for so many cycles, then add: a time that is set to within nanoseconds."""

    def call(a, b):
        import torch

        torch.cuda._sleep(cycles)
        return a + b

    return plain(call)


def small_pair():
    return [((1 << 16,), "float32")] * 2


SPINS = {
    f"spin_{step}": Case(small_pair(), spin(34_000 + 400 * step), lambda a, b: a + b) for step in range(6)
}
"""20 us on an H200, and each a percent longer than the one before."""

CASES = {
    "triton": Case(three(), triton_fma, fma),
    "autotune": Case(three(), triton_autotuned, fma),
    **SPINS,
    **{f"more_{more}": Case(three(3 << 20), triton_more(more), fma) for more in (0, 16, 32, 64)},
    "small": Case(three(1 << 16), triton_fma, fma),
    "aten": Case(
        [((4096, 1024), "float32")] * 3,
        plain(lambda a, b, c: (a * b + c).relu().sum(-1)),
        lambda a, b, c: (a * b + c).relu().sum(-1),
    ),
    "matmul": Case([((2048, 2048), "float16")] * 2, plain(matmul), matmul, 2e-2),
    "splitk": Case([((64, 16384), "float16"), ((16384, 64), "float16")], plain(matmul), matmul, 2e-2),
    "cupy": Case(three(), cupy_kernel, fma),
    "cupy_pool": Case(three(), cupy_pool, fma),
    "elsewhere": Case(three(), elsewhere, fma),
    "compile": Case(softmax3(), compiled(None), softmax_right),
    "overhead": Case(softmax3(), compiled("reduce-overhead"), softmax_right),
    "own_graph": Case(three(), own_graph, fma),
    "fork": Case([((1 << 20,), "float32")] * 2, fork_join, lambda a, b: a.sort()[0] + 3 * b),
    "constants": Case(three(), constants, constants_right),
    "attention": Case([((4, 16, 1024, 64), "float16")] * 3, plain(attention), attention, 1e-2),
    "item": Case(three(), plain(item), fma),
    "noise": Case(three(), plain(noise), fma),
    "copy": Case(
        [((256 << 20,), "float16"), ((256 << 20,), "float16")],
        plain(big_copy),
        lambda a, _out: a.clone(),
        writes=True,
    ),
    "forge": Case(three(), forger(0x204800000, 8192), fma, hostile=True),
    "release": Case(three(1 << 16), releaser(0x204600000, 1 << 12), fma, hostile=True),
    "release_more": Case(three(1 << 16), releaser(0x20460F000, 1 << 11), fma, hostile=True),
    "inline": Case(three(), inline, fma),
}
