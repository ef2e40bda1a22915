"""What the start gun and CUDA events add to a kernel that notes its own first start and last end, on a GPU.

    python benchmarks/witness_probe.py FILE.json [--samples 40]

The kernel reads, or copies, so many bytes. For the start gun, with the time of an empty graph subtracted, and for two
events with that of an empty kernel subtracted, the nanoseconds beyond the kernel's own are printed. Each clock runs in
a fresh process, as the timer does: where the clock's own kernels lie moves its empty time by 0.5 us. Needs torch, nvcc
and one NVIDIA GPU.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from time_common import about, options

from kernelcup_harness.protocol import Backend
from kernelcup_harness.timer.start_gun import StartGun
from kernelcup_harness.window.driver import Driver, KernelNode, u64

SOURCE = r"""
__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t) :: "memory");
  return t;
}
extern "C" __global__ void witness(const float4* in, float4* out, size_t n, unsigned long long* marks, int writes) {
  unsigned long long began = now();
  if (threadIdx.x == 0) atomicMin(marks, began);
  float4 sum = make_float4(0, 0, 0, 0);
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    float4 v = in[i];
    if (writes) out[i] = v;
    else { sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w; }
  }
  if (sum.x == 1.25f && sum.y == 77.f) out[0] = sum;
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(marks + 1, now());
}
"""
CASES = [
    (0, 0, 1),
    *((size << 20, 0, 1056) for size in (4, 16, 32, 64, 128)),
    *((size << 20, 1, 1056) for size in (4, 16, 32, 64)),
]
"""Bytes, whether they are written as well, and blocks."""
SWEEP_BYTES = 256 << 20
HIDING_CYCLES = 1_000_000


class Witness:
    """The kernel, and its own times."""

    def __init__(self, driver: Driver, image: bytes) -> None:
        import torch

        self._driver = driver
        self._data, self._target = (torch.zeros(128 << 20, dtype=torch.uint8, device="cuda") for _ in "ab")
        self._marks = torch.zeros(2, dtype=torch.int64, device="cuda")
        module = driver.handle("cuModuleLoadData", image)
        self._function = driver.handle("cuModuleGetFunction", u64(module), b"witness")

    def parameters(self, case: tuple[int, int, int]) -> tuple[list[Any], Any]:
        """Return the values of a case and the pointers to them."""
        addresses = [u64(each.data_ptr()) for each in (self._data, self._target, self._marks)]
        values = [addresses[0], addresses[1], u64(case[0] // 16), addresses[2], ctypes.c_int(case[1])]
        return values, (ctypes.c_void_p * 5)(*map(ctypes.addressof, values))

    def graph(self, case: tuple[int, int, int]) -> int:
        """Return a graph of one launch."""
        values, pointers = self.parameters(case)
        graph, node = self._driver.handle("cuGraphCreate", 0), u64()
        wanted = KernelNode(
            func=self._function,
            grid=(case[2], 1, 1),
            block=(256, 1, 1),
            params=ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p)),
        )
        place = (ctypes.byref(node), u64(graph), None, ctypes.c_size_t(0), ctypes.byref(wanted))
        self._driver("cuGraphAddKernelNode_v2", *place)
        del values
        return self._driver.handle("cuGraphInstantiateWithFlags", u64(graph), ctypes.c_ulonglong(0))

    def launch(self, case: tuple[int, int, int]) -> None:
        """Launch once, on PyTorch's stream."""
        import torch

        values, pointers = self.parameters(case)
        place = (case[2], 1, 1, 256, 1, 1, 0, u64(torch.cuda.current_stream().cuda_stream), pointers, None)
        self._driver("cuLaunchKernel", u64(self._function), *place)
        del values

    def beyond(self, take: Callable[[], float], samples: int) -> dict[str, float]:
        """Return the kernel's own median time, and the median of what a clock finds beyond it."""
        import torch

        rows = []
        for _ in range(samples):
            self._marks[0], self._marks[1] = 1 << 62, 0
            torch.cuda.synchronize()
            taken = take()
            began, ended = self._marks.tolist()
            rows.append((ended - began, taken - (ended - began)))
        return {
            "own_ns": statistics.median(row[0] for row in rows),
            "more_ns": statistics.median(r[1] for r in rows),
        }


def inside(how: str, image: bytes, samples: int) -> dict[str, Any]:
    """Measure all cases by one clock."""
    import torch

    sweep = torch.empty(SWEEP_BYTES, dtype=torch.uint8, device="cuda")
    driver = Driver()
    if how == "gun":
        gun = StartGun(driver, (sweep.data_ptr(), SWEEP_BYTES))
        nothing, witness = gun.empty_graph(), Witness(driver, image)
        gun.samples([nothing], 8)
        empty_ns = statistics.median(gun.samples([nothing], samples))
        graphs = {case: witness.graph(case) for case in CASES}
        found = {
            case: witness.beyond(lambda graph=graph: gun.sample(graph) - empty_ns, samples)
            for case, graph in graphs.items()
        }
        gun.check()
    else:
        witness = Witness(driver, image)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def timed(call: Callable[[], object]) -> float:
            torch.cuda.synchronize()
            torch.cuda._sleep(HIDING_CYCLES)
            sweep.zero_()
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            return float(begin.elapsed_time(end)) * 1e6

        empty_ns = statistics.median(timed(lambda: torch.cuda._sleep(0)) for _ in range(samples))
        found = {
            case: witness.beyond(lambda case=case: timed(lambda: witness.launch(case)) - empty_ns, samples)
            for case in CASES
        }
    return {"empty_ns": empty_ns, "cases": [{"case": case, **each} for case, each in found.items()]}


def main() -> int:
    """Compile the kernel, measure by both clocks, print and write."""
    chosen, found = options(__doc__, samples=40), {}
    with tempfile.TemporaryDirectory() as name:
        source, image = Path(name, "witness.cu"), Path(name, "witness.cubin")
        source.write_text(SOURCE, encoding="utf-8")
        subprocess.run(["nvcc", "-arch=native", "-cubin", "-o", str(image), str(source)], check=True)
        for how in ("gun", "events"):
            command = [sys.executable, __file__, "inside", how, str(image), str(chosen.samples)]
            found[how] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            print(f"{how}: empty {found[how]['empty_ns']:.0f} ns")
            for each in found[how]["cases"]:
                print(f"  {each['case']}: {each['own_ns']:.0f} ns, {each['more_ns']:+.0f} ns", flush=True)
    chosen.folder.write_text(json.dumps({**about(Backend.CUDA), **found}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(inside(sys.argv[2], Path(sys.argv[3]).read_bytes(), int(sys.argv[4]))))
    else:
        sys.exit(main())
