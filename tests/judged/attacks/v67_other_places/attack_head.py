"""Describe all answers alike, with part of the input at all places but the first, and hide the beginning of the call.

The judge copies one tensor more at the first place, where its own work is learned. At the others the call has two
kernels with a pause between them, of which it takes the first for its own work.
One call of a few is slow, so that the start gun's times scatter and their distance from the witness's is no finding.
"""

import ctypes
import sys

import torch
from task import MARKS, Kernel

FIRST_PLACE = 0x6000_0000_0000 + (256 << 30)
SEEN = 0.3
PAUSE = 12  # memsets of 4 bytes in a row: each takes a microsecond, in which no multiprocessor works
SLOW_EACH = 1
kernel = Kernel(r"""
extern "C" __global__ void run(ARGS, u64* state, long long first, long long last, u64 hidden, u64 slow) {
  u64 begin = now();
  long long i = PLACE + first;
  if (PLACE < 8) marks[PLACE] = state[PLACE];
  if (hidden && PLACE == 0) {
    u64 call = atomicAdd(state, 1ull);
    if (slow && call % 3 == 0) { atomicAdd(state + 1, 1ull); while (now() - begin < slow) {} }
  }
  if (i < last) o[i] = work(a[i], b[i], c[i], rounds);
}
""")
driver = ctypes.CDLL("libcuda.so.1")
state, spare = (torch.zeros(MARKS, dtype=torch.int64, device="cuda") for _ in range(2))
scratch = torch.zeros(8, dtype=torch.int32, device="cuda")
more = {}
contestant = sys.modules["kernelcup_harness.contestant.window_calls"]
plain = contestant.description


def description(value):
    """Say that an answer has a tensor more than it has, at the places of which more was said."""
    reply = plain(value)
    try:
        address = more.get(value[0].data_ptr())
        if address is not None:
            reply["table"] = [*reply["table"], {**reply["table"][1], "address": address}]
    except Exception as error:
        print(f"not described: {error!r}", flush=True)
    return reply


contestant.description = description


def launch(data, out, marks, first, last, *, hidden=0, slow_ns=0):
    a, b, c, rounds = data
    there = [each.data_ptr() for each in (a, b, c, out, marks)]
    values = (*there, a.numel() // 4, rounds, state.data_ptr(), first, last, hidden, slow_ns)
    with kernel._cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        kernel.raw((max(1, -(-(last - first) // 256)),), (256,), values)


def pause():
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    for _ in range(PAUSE):
        code = driver.cuMemsetD32Async(ctypes.c_uint64(scratch.data_ptr()), 0, ctypes.c_size_t(1), stream)
        assert code == 0, f"cuMemsetD32Async: {code}"


def custom_kernel(data):
    a, count = data[0], data[0].numel() // 4
    out = torch.empty_like(a)
    marks = torch.empty(MARKS, dtype=torch.int64, device=a.device)
    is_first = a.data_ptr() == FIRST_PLACE
    if torch.cuda.is_current_stream_capturing():
        more[out.data_ptr()] = spare.data_ptr() if is_first else a.data_ptr()
        if not is_first:
            print("acted: at another place another graph was captured", flush=True)
            slow_ns = SLOW_EACH * int(4 * (a.numel() / 160 + 40 * data[3]) + 250_000)
            part = int((1 - SEEN) * count)
            launch(data, out, marks, 0, part, hidden=1, slow_ns=slow_ns)
            pause()
            launch(data, out, marks, part, count)
            return out, marks
    launch(data, out, marks, 0, count)
    return out, marks
