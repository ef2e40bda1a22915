#!POPCORN leaderboard identity
"""A correct first submission with a kernel of its own, written in Triton."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 4096


@triton.jit
def copy_kernel(source, target, count, BLOCK: tl.constexpr):
    # Each program copies one block. The last block may reach past the end, hence the mask.
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    values = tl.load(source + offsets, mask=inside)
    tl.store(target + offsets, values, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    output = torch.empty_like(data)
    count = data.numel()
    copy_kernel[(triton.cdiv(count, BLOCK),)](data, output, count, BLOCK=BLOCK)
    return output
