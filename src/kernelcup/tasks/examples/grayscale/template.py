#!POPCORN leaderboard grayscale
"""A correct first submission. Change what is inside ``custom_kernel``."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    image, out = data
    red, green, blue = image.unbind(dim=-1)
    torch.mul(red, 0.299, out=out)
    out.add_(green, alpha=0.587)
    out.add_(blue, alpha=0.114)
    return out
