#!POPCORN leaderboard grayscale
"""A correct first submission with a kernel of its own, written in Triton."""

import triton
import triton.language as tl
from task import input_t, output_t

BLOCK = 4096


@triton.jit
def grayscale_kernel(image, out, count, BLOCK: tl.constexpr):
    # Each program turns one block of pixels grey. The last block may reach past the end.
    pixels = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pixels < count
    red = tl.load(image + pixels * 3, mask=inside)
    green = tl.load(image + pixels * 3 + 1, mask=inside)
    blue = tl.load(image + pixels * 3 + 2, mask=inside)
    tl.store(out + pixels, 0.299 * red + 0.587 * green + 0.114 * blue, mask=inside)


def custom_kernel(data: input_t) -> output_t:
    image, out = data
    count = out.numel()
    grayscale_kernel[(triton.cdiv(count, BLOCK),)](image, out, count, BLOCK=BLOCK)
    return out
