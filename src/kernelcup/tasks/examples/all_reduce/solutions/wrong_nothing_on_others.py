"""Returns an answer on rank 0 only."""

import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    total = data.clone()
    dist.all_reduce(total)
    return total if dist.get_rank() == 0 else None
