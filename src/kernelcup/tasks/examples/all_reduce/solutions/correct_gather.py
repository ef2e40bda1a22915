"""Gathers all tensors, and adds them up in each rank."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    parts = torch.empty((dist.get_world_size(), *data.shape), dtype=data.dtype, device=data.device)
    dist.all_gather(list(parts), data)
    return parts.sum(dim=0)
