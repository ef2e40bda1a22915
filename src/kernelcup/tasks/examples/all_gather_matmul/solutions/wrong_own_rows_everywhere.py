"""Forgets to communicate: its own rows stand for those of all ranks."""

import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    return (x @ w).repeat(dist.get_world_size(), 1)
