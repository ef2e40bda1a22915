"""Does a sweep empty the cache of what was marked to be dropped last? On a GPU, in one ordinary process.

    python benchmarks/cache_probe.py OUT.json [SECONDS]

Kernels read or write with the priority ``evict_last``; between two calls inputs are written anew and a sweep is made.
``fresh`` calls use memory that no marked access has touched before, so their time is the kernel's own on a cold cache:
a sweep is good if times in turns at four places are no shorter. Needs torch, CuPy and one NVIDIA GPU.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from time_common import gpu_name, now

SWEEP_BYTES = 256 << 20
HIDING_CYCLES = 1_500_000
PLACES, SAMPLES, EMPTIES = 4, 48, 40
SIZES = (4 << 20, 1 << 20, 1 << 16)
SOURCE = r"""
typedef unsigned long long u64;
__device__ __forceinline__ float4 load(const float4* p, u64 policy, int marks) {
  if (!(marks & 1)) return *p;
  float4 v;
  asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p), "l"(policy));
  return v;
}
__device__ __forceinline__ void store(float4* p, float4 v, u64 policy, int marks) {
  if (!(marks & 2)) { *p = v; return; }
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
               :: "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(policy) : "memory");
}
__device__ __forceinline__ u64 last() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
template <int marks> __device__ void work(const float4* a, const float4* b, const float4* c, float4* o, u64 n) {
  u64 i = blockIdx.x * 256ull + threadIdx.x, policy = last();
  if (i >= n) return;
  float4 x = load(a + i, policy, marks), y = load(b + i, policy, marks), z = load(c + i, policy, marks);
  store(o + i, make_float4(x.x * y.x + z.x, x.y * y.y + z.y, x.z * y.z + z.z, x.w * y.w + z.w), policy, marks);
}
#define KERNEL(name, marks) extern "C" __global__ void name(const float4* a, const float4* b, const float4* c, \
  float4* o, u64 n) { work<marks>(a, b, c, o, n); }
KERNEL(plain, 0)
KERNEL(loads, 1)
KERNEL(stores, 2)
KERNEL(both, 3)
extern "C" __global__ void mark(float4* p, u64 n) {
  u64 policy = last();
  for (u64 i = blockIdx.x * 256ull + threadIdx.x; i < n; i += gridDim.x * 256ull)
    store(p + i, make_float4(1, 2, 3, 4), policy, 2);
}
extern "C" __global__ void unmark(char* p, u64 bytes) {
  for (u64 i = 128 * (blockIdx.x * 256ull + threadIdx.x); i < bytes; i += 128 * gridDim.x * 256ull)
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" :: "l"(p + i) : "memory");
}
"""
KERNELS = ("plain", "loads", "stores", "both")


class Probe:
    """Times kernels with CUDA events, after a sweep."""

    def __init__(self) -> None:
        import cupy
        import torch

        self._torch, self._cupy = torch, cupy
        torch.zeros(1, device="cuda")
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._kernels = {
            name: cupy.RawKernel(SOURCE, name, options=("--std=c++14",))
            for name in (*KERNELS, "mark", "unmark")
        }
        self._sweep = torch.empty(SWEEP_BYTES, dtype=torch.uint8, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.sweeps: dict[str, Callable[[], None]] = {
            "fill": self._fill,
            "reset and fill": lambda: (self._reset(), self._fill())[1],
            "fill and reset": lambda: (self._fill(), self._reset())[1],
            "mark and unmark": self._mark,
            "mark, unmark and fill": lambda: (self._mark(), self._fill())[1],
        }

    def _fill(self) -> None:
        self._sweep.fill_(1)

    def _reset(self) -> None:
        # It counts for what has been done, so the device is waited for.
        self._torch.cuda.synchronize()
        code = self._driver.cuCtxResetPersistingL2Cache()
        assert code == 0, f"cuCtxResetPersistingL2Cache: {code}"

    def _mark(self) -> None:
        self._launch("mark", 1024, self._sweep.data_ptr(), SWEEP_BYTES // 16)
        self._launch("unmark", 1024, self._sweep.data_ptr(), SWEEP_BYTES)

    def _launch(self, name: str, blocks: int, *values: int) -> None:
        with self._cupy.cuda.ExternalStream(self._torch.cuda.current_stream().cuda_stream):
            self._kernels[name]((blocks,), (256,), values)

    def place(self, size: int) -> list[Any]:
        """Return memory for an input of three tensors, and an answer."""
        return [self._torch.rand(size, device="cuda") for _ in range(4)]

    def time(self, name: str, place: list[Any], sweep: str) -> float:
        """Return the nanoseconds of one call, with new inputs and after a sweep."""
        torch = self._torch
        for each in place[:3]:
            each.uniform_()
        torch.cuda.synchronize()
        self.sweeps[sweep]()
        torch.cuda._sleep(HIDING_CYCLES)
        self._begin.record()
        self._launch(
            name, -(-place[0].numel() // 1024), *(each.data_ptr() for each in place), place[0].numel() // 4
        )
        self._end.record()
        torch.cuda.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1e6

    def empty(self) -> float:
        """Return the nanoseconds of an empty kernel."""
        torch, found = self._torch, []
        for _ in range(EMPTIES):
            torch.cuda.synchronize()
            torch.cuda._sleep(HIDING_CYCLES)
            self._begin.record()
            torch.cuda._sleep(0)
            self._end.record()
            torch.cuda.synchronize()
            found.append(float(self._begin.elapsed_time(self._end)) * 1e6)
        return statistics.median(found)


def main() -> None:
    """Measure all kernels with all sweeps, and print medians in microseconds."""
    out, until = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 60)
    probe = Probe()
    empty = probe.empty()
    found: dict[str, Any] = {"device": gpu_name(), "date": now(), "empty_ns": empty, "times_ns": {}}
    kept: list[Any] = []
    for size in SIZES:
        for name in KERNELS:
            # Each once: no marked access has touched this memory before. Nothing is freed, or it would come again.
            fresh = [probe.place(size) for _ in range(SAMPLES)]
            kept.append(fresh)
            rows = {"fresh": [probe.time(name, each, "mark, unmark and fill") for each in fresh]}
            places = [probe.place(size) for _ in range(PLACES)]
            kept.append(places)
            for sweep in probe.sweeps:
                if time.monotonic() < until:
                    rows[sweep] = [probe.time(name, places[at % PLACES], sweep) for at in range(SAMPLES)]
            found["times_ns"][f"{name} {size}"] = rows
            out.write_text(json.dumps(found))
            medians = ", ".join(
                f"{key} {(statistics.median(ns[8:]) - empty) / 1e3:.2f}" for key, ns in rows.items()
            )
            print(f"{name} of {size}: {medians}", flush=True)


if __name__ == "__main__":
    main()
