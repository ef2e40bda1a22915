"""The same three kernels, and nothing else."""

import torch
from task import MARKS, Kernel

kernel = Kernel(r"""
extern "C" __global__ void run(ARGS, long long first, long long last) {
  long long i = PLACE + first;
  if (PLACE < 8) marks[PLACE] = 0;
  if (i < last) o[i] = work(a[i], b[i], c[i], rounds);
}
""")


def launch(data, out, marks, first, last):
    a, b, c, rounds = data
    there = [each.data_ptr() for each in (a, b, c, out, marks)]
    values = (*there, a.numel() // 4, rounds, first, last)
    with kernel._cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        kernel.raw((max(1, -(-(last - first) // 256)),), (256,), values)


def custom_kernel(data):
    count = data[0].numel() // 4
    out = torch.empty_like(data[0])
    marks = torch.empty(MARKS, dtype=torch.int64, device="cuda")
    for part in range(3):
        launch(data, out, marks, part * count // 3, (part + 1) * count // 3)
    return out, marks
