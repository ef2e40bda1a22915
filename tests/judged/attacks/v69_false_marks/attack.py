"""Imitate the judge's mark behind the first part of the work, so that the call seems to end there.

A mark is two kernels that last for some time, with an idle device in between. They last 30 us each here, and are
between pauses of memsets in which no multiprocessor works. One call of a few is slow, so that the start gun's times
scatter and their distance from the witness's is no finding.
"""

import ctypes

import torch
from task import MARKS, Kernel

SEEN = 0.3
PAUSE = 12  # memsets of 4 bytes in a row: each takes a microsecond, in which no multiprocessor works
LENGTHS_NS = (30_000, 30_000)
kernel = Kernel(r"""
extern "C" __global__ void run(ARGS, u64* state, long long first, long long last, u64 hidden, u64 slow) {
  u64 begin = now();
  long long i = PLACE + first;
  if (PLACE < 8) marks[PLACE] = state[PLACE];
  if (hidden && PLACE == 0) {
    u64 call = atomicAdd(state, 1ull);
    if (call % 3 == 0) { atomicAdd(state + 1, 1ull); while (now() - begin < slow) {} }
  }
  if (i < last) o[i] = work(a[i], b[i], c[i], rounds);
}
""")
spin = kernel._cupy.RawKernel(
    r"""
extern "C" __global__ void spin(unsigned long long ns) {
  unsigned long long begin, t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); } while (t - begin < ns);
}
""",
    "spin",
)
driver = ctypes.CDLL("libcuda.so.1")
state = torch.zeros(MARKS, dtype=torch.int64, device="cuda")
scratch = torch.zeros(8, dtype=torch.int32, device="cuda")


def on_stream():
    return kernel._cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)


def launch(data, out, marks, first, last, *, hidden=0, slow_ns=0):
    a, b, c, rounds = data
    there = [each.data_ptr() for each in (a, b, c, out, marks)]
    values = (*there, a.numel() // 4, rounds, state.data_ptr(), first, last, hidden, slow_ns)
    with on_stream():
        kernel.raw((max(1, -(-(last - first) // 256)),), (256,), values)


def pause():
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    for _ in range(PAUSE):
        code = driver.cuMemsetD32Async(ctypes.c_uint64(scratch.data_ptr()), 0, ctypes.c_size_t(1), stream)
        assert code == 0, f"cuMemsetD32Async: {code}"


def mark():
    for ns in LENGTHS_NS:
        with on_stream():
            spin((1,), (1,), (ns,))
        pause()


def custom_kernel(data):
    a, count = data[0], data[0].numel() // 4
    out = torch.empty_like(a)
    marks = torch.empty(MARKS, dtype=torch.int64, device=a.device)
    if not torch.cuda.is_current_stream_capturing():
        launch(data, out, marks, 0, count)
        return out, marks
    print("acted: a mark was captured", flush=True)
    part = int(SEEN * count)
    slow_ns = int(4 * (a.numel() / 160 + 40 * data[3]) + 1_000_000)
    launch(data, out, marks, 0, part)
    pause()
    mark()
    launch(data, out, marks, part, count, hidden=1, slow_ns=slow_ns)
    return out, marks
