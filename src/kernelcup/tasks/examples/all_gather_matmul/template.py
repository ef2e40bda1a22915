#!POPCORN leaderboard all_gather_matmul
"""Gathers the rows by NCCL, then multiplies."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    rows = torch.empty((dist.get_world_size() * len(x), x.shape[1]), dtype=x.dtype, device=x.device)
    dist.all_gather_into_tensor(rows, x)
    return rows @ w
