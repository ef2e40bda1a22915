"""Multiplies its own rows while those of the others arrive."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    world_size, rank, m = dist.get_world_size(), dist.get_rank(), len(x)
    rows = torch.empty((world_size, *x.shape), dtype=x.dtype, device=x.device)
    arriving = dist.all_gather_into_tensor(rows.view(-1, x.shape[1]), x, async_op=True)
    output = torch.empty((world_size, m, w.shape[1]), dtype=x.dtype, device=x.device)
    output[rank] = x @ w
    arriving.wait()
    for other in range(world_size):
        if other != rank:
            output[other] = rows[other] @ w
    return output.view(-1, w.shape[1])
