"""Sends the sum to rank 0 only."""

import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    total = data.clone()
    dist.reduce(total, dst=0)
    return total if dist.get_rank() == 0 else data.clone()
