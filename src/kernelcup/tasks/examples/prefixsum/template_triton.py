#!POPCORN leaderboard prefixsum
"""A correct first submission with kernels of its own, written in Triton."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 1024


@triton.jit
def scan_kernel(source, target, totals, count, BLOCK: tl.constexpr):
    # Each program scans one block by itself and notes the block's total.
    block = tl.program_id(0)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    values = tl.load(source + offsets, mask=inside, other=0.0)
    tl.store(target + offsets, tl.cumsum(values, axis=0), mask=inside)
    tl.store(totals + block, tl.sum(values, axis=0))


@triton.jit
def carry_kernel(target, carries, count, BLOCK: tl.constexpr):
    # Each program adds what came before its block. Nothing came before the first one.
    block = tl.program_id(0) + 1
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    carry = tl.load(carries + block - 1)
    tl.store(target + offsets, tl.load(target + offsets, mask=inside) + carry, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    output = torch.empty_like(data)
    count = data.numel()
    blocks = triton.cdiv(count, BLOCK)
    totals = torch.empty(blocks, device=data.device)
    scan_kernel[(blocks,)](data, output, totals, count, BLOCK=BLOCK)
    if blocks > 1:
        carries = torch.cumsum(totals, dim=0)
        carry_kernel[(blocks - 1,)](output, carries, count, BLOCK=BLOCK)
    return output
