"""Start a kernel that waits for work for ever."""

import torch
import triton
import triton.language as tl
from task import product


@triton.jit
def wait_for_work(flag, out):
    while tl.load(flag, volatile=True) == 0:
        tl.store(out, 1)


flag = torch.zeros(1, dtype=torch.int32, device="cuda")
out = torch.zeros(1, dtype=torch.int32, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    wait_for_work[(1,)](flag, out)


def custom_kernel(data):
    a, b, steps = data
    return product(a, b, steps)
