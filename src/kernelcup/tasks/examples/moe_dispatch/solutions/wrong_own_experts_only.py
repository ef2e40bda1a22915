"""Forgets to communicate: only the experts of its own rank are applied."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, chosen, weights, w = data
    first = dist.get_rank() * len(w)
    output = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for number in range(len(w)):
        share = torch.where(chosen == first + number, weights, 0.0).sum(dim=-1, keepdim=True)
        output += share * (x @ w[number])
    return output.to(x.dtype)
