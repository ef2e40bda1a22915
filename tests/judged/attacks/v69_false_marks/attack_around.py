"""Imitate the judge's marks before and behind the work, of lengths that are as good a guess as any.

Kernels of 12 to 60 us are drawn for each place. Of those before the work one may be taken for the judge's first mark,
of those behind it one for its second.
"""

import ctypes
import random

import torch
from task import Kernel

PAUSE = 12  # memsets of 4 bytes in a row: each takes a microsecond, in which no multiprocessor works
SHORTEST_NS, LONGEST_NS = 12_000, 60_000
kernel = Kernel()
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
scratch = torch.zeros(8, dtype=torch.int32, device="cuda")
chance = random.Random(69)


def pause():
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    for _ in range(PAUSE):
        code = driver.cuMemsetD32Async(ctypes.c_uint64(scratch.data_ptr()), 0, ctypes.c_size_t(1), stream)
        assert code == 0, f"cuMemsetD32Async: {code}"


def mark():
    for _ in range(2):
        pause()
        with kernel._cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            spin((1,), (1,), (chance.randrange(SHORTEST_NS, LONGEST_NS),))
        pause()


def custom_kernel(data):
    if not torch.cuda.is_current_stream_capturing():
        return kernel(data)
    print("acted: two marks were captured", flush=True)
    mark()
    answer = kernel(data)
    mark()
    return answer
