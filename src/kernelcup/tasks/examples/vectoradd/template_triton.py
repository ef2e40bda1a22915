#!POPCORN leaderboard vectoradd
"""A correct first submission with a kernel of its own, written in Triton."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 4096


@triton.jit
def add_kernel(a, b, output, count, BLOCK: tl.constexpr):
    # Each program adds one block. The last block may reach past the end, hence the mask.
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    total = tl.load(a + offsets, mask=inside) + tl.load(b + offsets, mask=inside)
    tl.store(output + offsets, total, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    output = torch.empty_like(a)
    count = output.numel()
    add_kernel[(triton.cdiv(count, BLOCK),)](a, b, output, count, BLOCK=BLOCK)
    return output
