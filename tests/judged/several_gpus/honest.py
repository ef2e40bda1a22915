"""All-reduce by NCCL: what the others are compared with."""

import torch.distributed as dist


def custom_kernel(data):
    total = data.clone()
    dist.all_reduce(total)
    return total
