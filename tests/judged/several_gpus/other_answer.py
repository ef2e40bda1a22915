"""Rank 0 computes both answers and writes the other's into its memory; rank 1 only waits."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

buffer = handle = None


def custom_kernel(data):
    global buffer, handle
    count, rank = data.numel(), dist.get_rank()
    if buffer is None or buffer.numel() < 2 * count:
        buffer = symmetric.empty(2 * count, dtype=torch.float32, device=data.device)
        handle = symmetric.rendezvous(buffer, dist.group.WORLD.group_name)
    buffer[:count].copy_(data)
    handle.barrier(channel=0)
    if not rank:
        theirs = handle.get_buffer(1, (2 * count,), torch.float32)
        torch.add(data, theirs[:count], out=buffer[count : 2 * count])
        theirs[count : 2 * count].copy_(buffer[count : 2 * count])
    handle.barrier(channel=1)
    return buffer[count : 2 * count].clone()
