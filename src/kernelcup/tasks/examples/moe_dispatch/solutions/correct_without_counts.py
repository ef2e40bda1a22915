"""Leaves room for all tokens of each rank, so that nothing waits for the device."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, chosen, weights, w = data
    world_size, first = dist.get_world_size(), dist.get_rank() * len(w)
    parts = [torch.empty((world_size, *part.shape), dtype=part.dtype, device=part.device) for part in data[:3]]
    for whole, part in zip(parts, data[:3], strict=True):
        dist.all_gather_into_tensor(whole.view(-1, part.shape[1]), part)
    every_x, every_chosen, every_weight = parts
    products = torch.zeros(every_x.shape, dtype=torch.float32, device=x.device)
    for number in range(len(w)):
        share = torch.where(every_chosen == first + number, every_weight, 0.0).sum(dim=-1, keepdim=True)
        products += share * (every_x @ w[number])
    sums = torch.empty_like(products)
    dist.all_to_all_single(sums, products)
    return sums.sum(dim=0).to(x.dtype)
