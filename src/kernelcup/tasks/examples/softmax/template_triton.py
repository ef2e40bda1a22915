#!POPCORN leaderboard softmax
"""A correct first submission with a kernel of its own, written in Triton."""

import torch
import triton
import triton.language as tl
from task import input_t, output_t


@triton.jit
def softmax_kernel(source, target, cols, BLOCK: tl.constexpr):
    # Each program takes one row and holds it in registers. What is read past its end is -inf,
    # which adds nothing to the sum.
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < cols
    values = tl.load(source + row * cols + columns, mask=inside, other=-float("inf"))
    shifted = tl.exp(values - tl.max(values, axis=0))
    result = shifted / tl.sum(shifted, axis=0)
    tl.store(target + row * cols + columns, result, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    rows, cols = data.shape
    output = torch.empty_like(data)
    softmax_kernel[(rows,)](data, output, cols, BLOCK=triton.next_power_of_2(cols))
    return output
