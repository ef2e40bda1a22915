"""Brings the other rank's part by the device's copy engines, which use no multiprocessor."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

buffer = handle = None


def custom_kernel(data):
    global buffer, handle
    count = data.numel()
    if buffer is None or buffer.numel() < count:
        buffer = symmetric.empty(count, dtype=torch.float32, device=data.device)
        handle = symmetric.rendezvous(buffer, dist.group.WORLD.group_name)
    buffer[:count].copy_(data)
    handle.barrier(channel=0)
    theirs = handle.get_buffer(1 - dist.get_rank(), (count,), torch.float32)
    answer = torch.empty_like(data).copy_(theirs)
    handle.barrier(channel=1)
    return answer.add_(data)
