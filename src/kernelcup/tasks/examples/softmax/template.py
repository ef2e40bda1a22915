#!POPCORN leaderboard softmax
"""A correct first submission. Change what is inside ``custom_kernel``."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    shifted = torch.exp(data - data.amax(dim=-1, keepdim=True))
    return shifted / shifted.sum(dim=-1, keepdim=True)
