"""Puts its own rows first, in each rank."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    rows = torch.empty((dist.get_world_size(), *x.shape), dtype=x.dtype, device=x.device)
    dist.all_gather_into_tensor(rows.view(-1, x.shape[1]), x)
    return rows.roll(-dist.get_rank(), dims=0).view(-1, x.shape[1]) @ w
